"""The cluster end of `xsft submit`: put the plan there once, and say what is there now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from xsft.commands.progress import Shown
from xsft.commands.resumed_text import ORDERS
from xsft.commands.run_documents import finite
from xsft.commands.waiting import Waited
from xsft.effects.submit.interrupts import NOTHING_CREATED, goes_on, when_interrupted
from xsft.effects.submit.proposal import Proposal
from xsft.effects.submit.submission import Submission, Submitter
from xsft.errors import Refused, XsftError
from xsft.problems import Problem
from xsft.steps import Plan
from xsft.trainers.tensorboard import tensorboard_lines


class Connect(Protocol):
    """Makes the submitter for a plan."""

    def __call__(self, *, progress: Callable[[str], None], confirm: Callable[[Proposal], None]) -> Submitter: ...


Wait = Callable[[Submission], Waited]
"""Waits for the end of the run (`submit_wait.After.wait`)."""


def submit_cluster(
    plan: Plan,
    *,
    connect: Connect,
    json: bool,
    wait: Wait | None = None,
    warnings: tuple[Problem, ...] = (),
    ask: Callable[[str], bool] | None = None,
) -> int:
    """Create, adopt or recognise the run; 0. With `wait`, on to its end. `warnings`: of the plan. `ask`: whether to
    create it, the person at the terminal; None where nobody is asked.

    Raises as `connect` and `Submitter.submit` do, Refused where the answer is no, and as `waiting.error_of` says; under
    `json` the document is printed instead and the exit status returned.
    """
    from xsft.commands.failure import print_problems
    from xsft.commands.progress import shown

    sys.stderr.write("\n".join(_asks_for(plan)) + "\n")
    told = _Told()
    try:
        with shown("submit") as progress:
            asking = partial(_confirm, ask=ask, progress=progress, told=told, warnings=warnings)
            with when_interrupted(NOTHING_CREATED):
                submitter = connect(progress=progress, confirm=asking)
            done = submitter.submit(plan)
    except XsftError:
        told.tell(warnings)
        raise
    _warn(done, warnings, told)
    if wait is None:
        return _done(done, json=json)
    if not json and done.action != "finished":
        _say(_report(done))
    with when_interrupted(goes_on(plan.run_name)):
        waited = wait(done)
    if done.action == "finished" and waited.outcome == "reached":
        print_problems(waited.problems)
        return _done(replace(done, problems=(*done.problems, *waited.problems)), json=json)
    return _waited(done, waited, json=json)


def _done(done: Submission, *, json: bool) -> int:
    if json:
        _print_document(done)
    else:
        _say(_report(done))
    return 0


class _Told:
    """Prints each warning once: what was told with the question is not repeated after the answer."""

    def __init__(self) -> None:
        self._told: set[Problem] = set()

    def tell(self, problems: Iterable[Problem]) -> None:
        from xsft.commands.failure import print_problems

        new = [p for p in problems if p.severity == "warning" and p not in self._told]
        self._told |= set(new)
        print_problems(new)


def _confirm(
    proposal: Proposal,
    *,
    ask: Callable[[str], bool] | None,
    progress: Shown,
    told: _Told,
    warnings: tuple[Problem, ...],
) -> None:
    """Say what would be created and ask. Raises Refused where the answer is no."""
    if ask is None:
        return
    progress.pause()
    told.tell((*warnings, *proposal.problems))
    sys.stderr.writelines(f"{line}\n" for line in _proposed(proposal))
    with when_interrupted(NOTHING_CREATED):
        agreed = ask(f"{_takes(proposal.plan)}? [y/N] ")
    if not agreed:
        raise Refused("Nothing was created.", fix="Answer y, or pass --yes.", id="not-confirmed")


def _proposed(proposal: Proposal) -> Iterator[str]:
    """What is not the same as at the last attempt."""
    if proposal.attempt > 1:
        step = proposal.resumes_from
        begins = "no checkpoint was saved: it begins at step 0" if step is None else f"resumes from step {step}"
        yield f"attempt {proposal.attempt}: {begins}"
    if proposal.since is not None:
        yield f"changed since attempt {proposal.since}: {'; '.join(proposal.changed) or 'nothing'}"


def _takes(plan: Plan) -> str:
    run = plan.run
    described = run.slice.xpk_type if run.slice else "?"
    return f"Take {run.chips} chips ({run.num_slices} x {described}) from queue {run.queue}"


def _warn(done: Submission, of_the_plan: tuple[Problem, ...], told: _Told) -> None:
    """What the plan warns of was told when the run was created: of one that is there already it changes nothing."""
    new = done.action in ("created", "attempt")
    told.tell((*(of_the_plan if new else ()), *done.problems))
    if of_the_plan and not new:
        count = f"{len(of_the_plan)} warning{'s' if len(of_the_plan) > 1 else ''}"
        sys.stderr.write(f"{count} of the workload, told when the run was created: xsft plan {done.plan.file}\n")


def _waited(done: Submission, waited: Waited, *, json: bool) -> int:
    from xsft.commands.failure import print_problems
    from xsft.commands.status_watch import change
    from xsft.commands.waiting import error_of
    from xsft.states.waiting import DONE

    failed = error_of(done.plan.run_name, DONE, waited)
    if json:
        _print_document(done, waited, failed)
        print_problems((*waited.problems, *(failed.problems if failed else ())))
        return failed.exit_status if failed else 0
    print_problems(waited.problems)
    if failed:
        raise failed
    if waited.row:
        _say((change(waited.row),))
    return 0


def _say(lines: Iterable[str]) -> None:
    """At once: a nightly job's log is read while it waits."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


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
            nth = " (a new attempt)" if done.action == "attempt" else ""
            yield f"{plan.run_name}: created JobSet {done.jobset}, uid {done.uid}{nth}"
            yield from _resumes(done)
        case "adopted":
            yield f"{plan.run_name}: JobSet {done.jobset}, uid {done.uid}, lives with the same workload; nothing sent"
        case "finished":
            yield f"{plan.run_name}: finished; its checkpoint of step {done.steps} is saved; nothing was sent"
    folder = f"{str(plan.run.output).rstrip('/')}/{plan.run_name}"
    yield f"checkpoints  {folder}/checkpoints"
    yield from tensorboard_lines(plan.run, folder=folder)
    if done.record:
        yield f"record       {done.record}"


def _resumes(done: Submission) -> Iterator[str]:
    if done.resumed_from is not None:
        yield f"resumes      from step {done.resumed_from}, with {ORDERS[done.resumed_order or 'repeated']}"
    elif done.action == "attempt":
        yield "resumes      no checkpoint was saved: it begins at step 0"


def _print_document(done: Submission, waited: Waited | None = None, failed: XsftError | None = None) -> None:
    from xsft.commands.documents import print_json
    from xsft.commands.failure import problem_documents
    from xsft.commands.run_documents import run_document

    row = waited.row if waited else None
    steps, loss = (row.step, row.loss) if row else (done.steps, None)

    document: dict[str, Any] = {
        "run_name": done.plan.run_name,
        "jobset": done.jobset,
        "action": done.action,
        "uid": done.uid,
        "spec_digest": done.plan.spec_digest,
        "record": done.record,
        "result": {"steps": steps, "first_loss": None, "last_loss": finite(loss)} if steps else None,
        "problems": problem_documents(
            (*done.problems, *(waited.problems if waited else ()), *(failed.problems if failed else ()))
        ),
    }
    if done.resumed_from is not None:
        document |= {"resumed_from": done.resumed_from, "resumed_order": done.resumed_order}
    if waited:
        document |= {"run": run_document(row) if row else None, "exit_status": failed.exit_status if failed else 0}
    print_json("submit", document)
