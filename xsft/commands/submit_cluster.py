"""The cluster end of `xsft submit`: put the plan there once, and say what is there now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from xsft.effects.submission import Submission, Submitter
from xsft.steps import Plan


class Connect(Protocol):
    """Makes the submitter for a plan."""

    def __call__(self, *, progress: Callable[[str], None]) -> Submitter: ...


def submit_cluster(plan: Plan, *, connect: Connect, json: bool) -> int:
    """Create, adopt or recognise the run; 0. Raises as `connect` and `Submitter.submit` do."""
    from xsft.commands.failure import print_problems
    from xsft.commands.progress import shown

    sys.stderr.write("\n".join(_asks_for(plan)) + "\n")
    with shown("submit") as progress:
        done = connect(progress=progress).submit(plan)
    print_problems(p for p in done.problems if p.severity == "warning")
    if json:
        _print_document(done)
    else:
        sys.stdout.write("\n".join(_report(done)) + "\n")
    return 0


def _asks_for(plan: Plan) -> Iterator[str]:
    """What is about to be taken, before it is."""
    run = plan.run
    described = run.slice.describe if run.slice else "?"
    yield f"{plan.run_name}: {run.chips} chips, {run.num_slices} x {described}"
    yield f"queue {run.queue} in namespace {run.namespace}, priority {run.spec.priority}, mode {plan.mode.value}"


def _report(done: Submission) -> Iterator[str]:
    plan = done.plan
    match done.action:
        case "created" | "attempt":
            goes_on = " (a new attempt; it goes on from the last checkpoint, where one was saved)"
            nth = goes_on if done.action == "attempt" else ""
            yield f"{plan.run_name}: created JobSet {done.jobset}, uid {done.uid}{nth}"
        case "adopted":
            yield f"{plan.run_name}: JobSet {done.jobset}, uid {done.uid}, lives with the same workload; nothing sent"
        case "finished":
            yield f"{plan.run_name}: finished; its checkpoint of step {done.steps} is saved; nothing was sent"
    yield f"checkpoints  {str(plan.run.output).rstrip('/')}/{plan.run_name}/checkpoints"
    if done.record:
        yield f"record       {done.record}"


def _print_document(done: Submission) -> None:
    from xsft.commands.documents import print_json
    from xsft.commands.failure import problem_documents

    document: dict[str, Any] = {
        "run_name": done.plan.run_name,
        "jobset": done.jobset,
        "action": done.action,
        "uid": done.uid,
        "spec_digest": done.plan.spec_digest,
        "record": done.record,
        "result": {"steps": done.steps, "first_loss": None, "last_loss": None} if done.steps else None,
        "problems": problem_documents(done.problems),
    }
    print_json("submit", document)
