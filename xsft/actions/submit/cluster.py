"""The cluster side of `xsft submit`: create the plan's JobSet once, and print what the cluster holds then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from xsft.acceptance import for_submission
from xsft.actions.runs.waiting import Waited, error_of
from xsft.effects.submit.interrupts import NOTHING_CREATED, goes_on, when_interrupted
from xsft.effects.submit.proposal import Proposal
from xsft.effects.submit.submission import Submission, Submitter
from xsft.errors import Refused, XsftError
from xsft.launchers.cpujob import CpuJob
from xsft.launchers.slicejob import SliceJob
from xsft.problems import Problem
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.plan_summary import time_text
from xsft.screen.progress import ProgressView, shown
from xsft.screen.resumed_text import ORDERS
from xsft.screen.run_documents import finite, run_document
from xsft.spec.amounts import counted, duration_text
from xsft.states.rows import state_line
from xsft.states.waiting import DONE
from xsft.steps import JobPlan, Plan, Planned
from xsft.trainers.tensorboard import tensorboard_lines


class Connect(Protocol):
    """Function that makes the submitter for a plan."""

    def __call__(self, *, progress: Callable[[str], None], confirm: Callable[[Proposal], None]) -> Submitter: ...


PrintedDocument = tuple[str, dict[str, Any]]
"""The kind of a document, and its fields."""
DocumentOf = Callable[[Submission, Waited | None, XsftError | None], PrintedDocument]
"""Function that returns the document for a submission, the wait for its end, and its failure."""
Wait = Callable[[Submission], Waited]
"""Function that waits for the end of the run (`submit_wait.After.wait`)."""


def submit_cluster(
    plan: Planned,
    *,
    connect: Connect,
    json: bool,
    wait: Wait | None = None,
    ask: Callable[[str], bool] | None = None,
    document: DocumentOf | None = None,
) -> int:
    """Create, adopt or recognise the run and return 0; with `wait`, wait for its end.

    `ask`: asks the user whether to create it; None: without asking. `document`: what `json` prints; by default that of
    `submit`.

    Raises as `connect` and `Submitter.submit` do, Refused if the answer is no, and as `waiting.error_of` says; under
    `json` the document is printed instead and the exit status returned.
    """
    printed = (document or _submission_document) if json else None
    done = submitted(plan, connect=connect, ask=ask)
    if wait is None:
        return _print_submission(done, printed)
    if not json and done.action != "finished":
        _say(_submission_lines(done))
    with when_interrupted(goes_on(plan.run_name)):
        waited = wait(done)
    if done.action == "finished" and waited.outcome == "reached":
        print_problems(waited.problems)
        return _print_submission(replace(done, problems=(*done.problems, *waited.problems)), printed)
    return _waited(done, waited, printed)


def submitted(plan: Planned, *, connect: Connect, ask: Callable[[str], bool] | None) -> Submission:
    """Create, adopt or recognise the run; print what it takes and the warnings to stderr. Raises as `submit_cluster`
    does.
    """
    sys.stderr.write("\n".join(_asks_for(plan)) + "\n")
    printer, warnings = _WarningPrinter(), tuple(p for p in for_submission(plan.problems) if p.severity == "warning")
    try:
        with shown("submit") as progress:
            asking = partial(_confirm, ask=ask, progress=progress, printer=printer, warnings=warnings)
            with when_interrupted(NOTHING_CREATED):
                submitter = connect(progress=progress, confirm=asking)
            done = submitter.submit(plan)
    except XsftError:
        printer.tell(warnings)
        raise
    _warn(done, warnings, printer)
    return done


def _print_submission(done: Submission, document: DocumentOf | None) -> int:
    """Print the submission and return 0. `document`: None for text."""
    if document:
        print_json(*document(done, None, None))
    else:
        _say(_submission_lines(done))
    return 0


class _WarningPrinter:
    """Printer of warnings, each once: those shown with the question are not repeated after the answer."""

    def __init__(self) -> None:
        self._told: set[Problem] = set()

    def tell(self, problems: Iterable[Problem]) -> None:
        new = [p for p in problems if p.severity == "warning" and p not in self._told]
        self._told |= set(new)
        print_problems(new)


def _confirm(
    proposal: Proposal,
    *,
    ask: Callable[[str], bool] | None,
    progress: ProgressView,
    printer: _WarningPrinter,
    warnings: tuple[Problem, ...],
) -> None:
    """Print what would be created and ask. Raises Refused if the answer is no."""
    if ask is None:
        return
    progress.pause()
    printer.tell((*warnings, *proposal.problems))
    sys.stderr.writelines(f"{line}\n" for line in _proposed(proposal))
    with when_interrupted(NOTHING_CREATED):
        agreed = ask(f"{_takes(proposal.plan)}? [y/N] ")
    if not agreed:
        raise Refused("Nothing was created.", fix="Answer y, or pass --yes.", id="not-confirmed")


def _proposed(proposal: Proposal) -> Iterator[str]:
    """Yield lines on what differs from the last attempt."""
    if proposal.attempt > 1:
        step = proposal.resumes_from
        begins = "no checkpoint was saved; it starts at step 0" if step is None else f"resumes from step {step}"
        yield f"attempt {proposal.attempt}: {begins}"
    if proposal.since is not None:
        yield f"changed since attempt {proposal.since}: {'; '.join(proposal.changed) or 'nothing'}"


def _takes(plan: Planned) -> str:
    run = plan.run
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan():
            described = run.slice.xpk_type if run.slice else "?"
            return f"Take {run.chips} chips ({run.num_slices} x {described}) from queue {run.queue}"
        case SliceJob() as job:
            described = run.slice.xpk_type if run.slice else "?"
            most = duration_text(job.limit_s)
            return f"Take {run.chips} chips ({run.num_slices} x {described}) for at most {most}, from queue {run.queue}"
        case CpuJob() as job if run.slice:
            return f"Take {run.chips} chips ({run.slice.xpk_type}) for {job.work} on one host, from queue {run.queue}"
        case CpuJob() as job:
            return f"Take {job.cpus} CPUs and {job.memory_quantity} of memory from queue {run.queue}"


def _warn(done: Submission, of_the_plan: tuple[Problem, ...], printer: _WarningPrinter) -> None:
    """Print the warnings; those of the plan only for a new JobSet, since they change nothing about an existing one."""
    new = done.action in ("created", "attempt")
    printer.tell((*(of_the_plan if new else ()), *done.problems))
    print_problems([p for p in done.problems if p.severity == "note" and p.kind == "unread"])
    if of_the_plan and not new:
        count = counted(len(of_the_plan), "warning")
        sys.stderr.write(f"{count} of the workload, shown when the run was created: xsft plan {done.plan.file}\n")


def _waited(done: Submission, waited: Waited, document: DocumentOf | None) -> int:
    failed = error_of(done.plan.run_name, DONE, waited)
    if document:
        print_json(*document(done, waited, failed))
        print_problems((*waited.problems, *(failed.problems if failed else ())))
        return failed.exit_status if failed else 0
    print_problems(waited.problems)
    if failed:
        raise failed
    if waited.row:
        _say((state_line(waited.row),))
    return 0


def _say(lines: Iterable[str]) -> None:
    """Print the lines and flush, because the log of a nightly job is read while it waits."""
    sys.stdout.writelines([f"{line}\n" for line in lines])
    sys.stdout.flush()


def _asks_for(plan: Planned) -> Iterator[str]:
    """Yield lines on the resources that the run will take."""
    run = plan.run
    at = f"queue {run.queue} in namespace {run.namespace}, priority {run.spec.priority}"
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan() as training:
            described = run.slice.describe if run.slice else "?"
            yield f"{plan.run_name}: {run.chips} chips, {run.num_slices} x {described}"
            yield f"{at}, mode {run.mode.value}"
            if training.time:
                yield time_text(training.time)
        case SliceJob() as job:
            described = run.slice.describe if run.slice else "?"
            slices = f"{run.chips} chips, {run.num_slices} x {described}"
            yield f"{plan.run_name}: {slices}, at most {duration_text(job.limit_s)}"
            yield at
        case CpuJob() if run.slice:
            yield f"{plan.run_name}: {run.chips} chips, {run.slice.describe}; only its first host works"
            yield at
        case CpuJob() as job:
            yield f"{plan.run_name}: one CPU node, {job.cpus} CPUs and {job.memory_quantity} of memory"
            yield at


def _submission_lines(done: Submission) -> Iterator[str]:
    plan = done.plan
    match done.action:
        case "created" | "attempt":
            nth = " (a new attempt)" if done.action == "attempt" else ""
            yield f"{plan.run_name}: created JobSet {done.jobset}, uid {done.uid}{nth}"
            yield from _resumes(done)
        case "adopted":
            yield f"{plan.run_name}: JobSet {done.jobset}, uid {done.uid}, has the same workload; nothing was sent"
        case "finished":
            yield f"{plan.run_name}: finished; {_complete_text(done)}; nothing was sent"
    yield from _makes(plan)
    if done.record:
        yield f"record       {done.record}"


def _complete_text(done: Submission) -> str:
    match done.plan:
        case Plan():
            return f"its checkpoint of step {done.steps} is saved"
        case JobPlan():
            return "its result is complete"


def _makes(plan: Planned) -> Iterator[str]:
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan():
            folder = f"{str(plan.run.output).rstrip('/')}/{plan.run_name}"
            yield f"checkpoints  {folder}/checkpoints"
            yield from tensorboard_lines(plan.run, folder=folder)
        case CpuJob() as job:
            yield f"{'model' if job.work == 'export' else 'checkpoint':<13}{job.writes}"
        case SliceJob() as job:
            yield f"result       {job.writes}"


def _resumes(done: Submission) -> Iterator[str]:
    if not isinstance(done.plan, Plan):
        return
    if done.resumed_from is not None:
        yield f"resumes      from step {done.resumed_from}, with {ORDERS[done.resumed_order or 'repeated']}"
    elif done.action == "attempt":
        yield "resumes      no checkpoint was saved; it starts at step 0"


def _submission_document(done: Submission, waited: Waited | None, failed: XsftError | None) -> PrintedDocument:
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
        "problems": problem_documents(submission_problems(done, waited, failed)),
    }
    if done.resumed_from is not None:
        document |= {"resumed_from": done.resumed_from, "resumed_order": done.resumed_order}
    return "submit", document | waited_fields(waited, failed)


def submission_problems(done: Submission, waited: Waited | None, failed: XsftError | None) -> tuple[Problem, ...]:
    """Return the problems of a submission, of the wait for its end, and of its failure."""
    return (*done.problems, *(waited.problems if waited else ()), *(failed.problems if failed else ()))


def waited_fields(waited: Waited | None, failed: XsftError | None) -> dict[str, Any]:
    """Return the fields that only a document of a call with `--wait` has."""
    if waited is None:
        return {}
    run = run_document(waited.row) if waited.row else None
    return {"run": run, "exit_status": failed.exit_status if failed else 0}
