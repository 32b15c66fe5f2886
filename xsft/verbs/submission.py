"""A submission to a cluster, and how the run ended: the document of `submit`, and text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from xsft.base.amounts import duration_text
from xsft.base.names import RowOrder
from xsft.launch.identity import Proposal
from xsft.launch.submission import Submission
from xsft.launch.submit import SubmissionEnd
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.slicejob import SliceJob
from xsft.planning.steps import JobPlan, Plan, Planned
from xsft.runs.rows import Row, state_line
from xsft.trainer.tensorboard import tensorboard_lines
from xsft.verbs.document import Document, VerbDocument, finite, print_document, print_lines, problem_documents
from xsft.verbs.failure import print_problems
from xsft.verbs.run_time import time_text

ORDERS: dict[RowOrder, str] = {
    "reshuffled": "its rows from the first one again, in another order",
    "repeated": "the same rows from the first one again, in the same order",
}


class Result(Document, frozen=True, kw_only=True):
    """The result of a run that has ended."""

    steps: int
    """The last step that ran."""
    first_loss: float | None
    last_loss: float | None


class SubmitDocument(VerbDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.submit/1"):
    """`xsft submit FILE --json`. `checkpoints` to `private_pids` are for `target: local`. If the exit status is not 0,
    the last of the problems explains it."""

    run_name: str
    jobset: str | None
    """Name of the JobSet; null for `target: local`, and for a finished run whose JobSets are gone."""
    action: Literal["created", "adopted", "attempt", "finished"]
    """created: a new run · adopted: a live run continues · attempt: a further attempt · finished: nothing is left to
    do."""
    uid: str | None
    """UID of the JobSet; null if `jobset` is null."""
    spec_digest: str
    record: str | None
    """File that records the attempt; null for a finished run of which only the JobSet is known."""
    result: Result | None
    """The run's result; null if it has not ended."""
    resumed_from: int | None = None
    """Step of the checkpoint from which it resumes; for a new attempt on a cluster, the last saved one."""
    resumed_order: RowOrder | None = None
    """Order of the rows after resuming, from the first row: another order than before, or the same."""
    checkpoints: tuple[str, ...] = ()
    """Saved checkpoints, the oldest first."""
    log: str | None = None
    """The trainer's own log."""
    plot: str | None = None
    """The loss curve, a picture."""
    private_pids: bool | None = None
    """Whether the trainer had its own PID namespace."""
    run: Row | None = None
    """With `--wait` or `--follow` on a cluster: the last state of the run that was read."""


def print_created(done: Submission) -> None:
    """Print the submission, before the wait for its end."""
    print_lines(tuple(submission_lines(done)))


def submission_document(end: SubmissionEnd) -> SubmitDocument:
    done, run = end.done, waited_run(end)
    steps, loss = (run.step, run.loss) if run else (done.steps, None)
    return SubmitDocument(
        run_name=done.plan.run_name,
        jobset=done.jobset,
        action=done.action,
        uid=done.uid,
        spec_digest=done.plan.spec_digest,
        record=done.record,
        result=Result(steps=steps, first_loss=None, last_loss=loss) if steps else None,
        resumed_from=done.resumed_from,
        resumed_order=done.resumed_order,
        run=run,
        problems=problem_documents(end.problems),
        exit_status=exit_status(end),
    )


def waited_run(end: SubmissionEnd) -> Row | None:
    """Return the run as it was read last; None if it was not waited for."""
    return finite(end.waited.row) if end.waited and end.waited.row else None


def exit_status(end: SubmissionEnd) -> int:
    return end.failed.exit_status if end.failed else 0


def report_submission(end: SubmissionEnd, document: VerbDocument | None) -> int:
    """Print the end of a submission, or the document, and return the exit status; without a document the error of a
    failed run is raised instead."""
    if document is not None:
        print_document(document)
    elif end.waited is None:
        print_created(end.done)
    if end.waited is None:
        return 0
    print_problems(end.waited.problems)
    if end.failed and document is None:
        raise end.failed
    print_problems(end.failed.problems if end.failed else ())
    if end.waited.row and document is None:
        print_lines((state_line(end.waited.row),))
    return exit_status(end)


def resource_lines(plan: Planned) -> Iterator[str]:
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


def proposal_lines(proposal: Proposal) -> Iterator[str]:
    """Yield lines on what differs from the last attempt."""
    if proposal.attempt > 1:
        step = proposal.world.latest_step
        begins = "no checkpoint was saved; it starts at step 0" if step is None else f"resumes from step {step}"
        yield f"attempt {proposal.attempt}: {begins}"
    if proposal.since is not None:
        yield f"changed since attempt {proposal.since}: {'; '.join(proposal.changed) or 'nothing'}"
    end = proposal.world.last_end
    if end is not None:
        yield f"attempt {end.attempt} ended: {end.message}"
    if proposal.repeats:
        yield "The workload is the same, so this attempt would end so too."


def submission_lines(done: Submission) -> Iterator[str]:
    """Yield what was done, and where the results will be."""
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
    if done.action != "finished":
        yield f"next         xsft logs -f {plan.run_name}, or xsft status {plan.run_name}"


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


def resumed_text(step: int | None, order: RowOrder | None) -> str:
    """Return e.g. `resumed from step 10: its rows from the first again, in another order`; empty for a run that did not
    resume."""
    if step is None:
        return ""
    return f"resumed from step {step}" + (f": {ORDERS[order]}" if order else "")
