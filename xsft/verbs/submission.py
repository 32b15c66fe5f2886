"""A submission to a cluster, and how the run ended: the document of `submit`, and text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TextIO

from xsft.base.amounts import duration_text, size_text
from xsft.base.names import RowOrder
from xsft.launch.identity import Proposal
from xsft.launch.local_folder import newest_trace
from xsft.launch.local_run import LocalResult
from xsft.launch.submission import Submission
from xsft.launch.submit import SubmissionEnd
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.server_manifest import BF16_BYTES, weights_bytes
from xsft.launcher.slicejob import SliceJob
from xsft.planning.steps import JobPlan, Plan, Planned
from xsft.records.record import Receipt
from xsft.runs.receipt import SPENT
from xsft.runs.rows import Row, state_line
from xsft.trainer.metrics import open_command, tensorboard_lines
from xsft.trainer.trainer import trainer_of
from xsft.verbs.card import drawable_text, terminal_plot
from xsft.verbs.document import (
    Document,
    VerbDocument,
    document_of,
    print_lines,
    print_problems,
    problem_documents,
    report_document,
)
from xsft.verbs.plan_text import time_text
from xsft.weights.checkpoint_files import parameters
from xsft.weights.read_checkpoint import read_checkpoint

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
    done, run = end.done, end.run
    steps, loss = done.steps, None
    if run:
        steps, loss = run.step, run.loss
    return document_of(
        SubmitDocument,
        done,
        run_name=done.plan.run_name,
        spec_digest=done.plan.spec_digest,
        result=Result(steps=steps, first_loss=None, last_loss=loss) if steps else None,
        resumed_order=done.resumed_order,
        run=run,
        problems=problem_documents(end.problems),
    )


def report_submission(end: SubmissionEnd, document: VerbDocument, *, as_json: bool) -> int:
    """Print the document, or the last state of the run that was waited for, and return 0. Raises the error of a failed
    run, with the document. What was submitted is an event, printed before."""
    if end.waited:
        print_problems(end.waited.problems)
    if end.run and not (as_json or end.failed):
        print_lines((state_line(end.run),))
    return report_document(document, as_json=as_json, failed=end.failed, shown=True)


def resource_lines(plan: Planned) -> Iterator[str]:
    """Yield lines on the resources that the run will take."""
    run = plan.run
    queue = f"queue {run.queue} in namespace {run.namespace}, priority {run.spec.priority}"
    match plan if isinstance(plan, Plan) else plan.job:
        case Plan() as training:
            described = run.slice.describe if run.slice else "?"
            yield f"{plan.run_name}: {run.chips} chips, {run.num_slices} x {described}"
            yield f"{queue}, mode {run.mode.value}"
            if training.time:
                yield time_text(training.time)
        case SliceJob() as job:
            described = run.slice.describe if run.slice else "?"
            slices = f"{run.chips} chips, {run.num_slices} x {described}"
            yield f"{plan.run_name}: {slices}, at most {duration_text(job.limit_s)}"
            yield queue
        case CpuJob() if run.slice:
            yield f"{plan.run_name}: {run.chips} chips, {run.slice.describe}; only its first host works"
            yield queue
        case CpuJob() as job:
            yield f"{plan.run_name}: one CPU node, {job.cpus} CPUs and {job.memory_quantity} of memory"
            yield queue


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


def show_result(plan: Plan, result: LocalResult, picture: Path | None, *, stream: TextIO) -> None:
    """Print the summary of a run. Its plot is drawn with box characters; a terminal that lacks them gets question
    marks."""
    stream.writelines(f"{drawable_text(line, stream)}\n" for line in local_lines(plan, result, picture=picture))
    stream.flush()


def local_lines(plan: Plan, result: LocalResult, *, picture: Path | None) -> Iterator[str]:
    """Yield the lines of the summary at the end."""
    if result.outcome == "interrupted":
        yield from _interrupted_lines(result)
        return
    if plot := terminal_plot(result.losses):
        yield plot
    if result.outcome != "completed":
        return
    how = ", finished earlier; nothing was run" if result.action == "finished" else ""
    yield f"{plan.run_name}: {result.steps} of {result.steps_asked} steps{how}{_losses(result)}"
    if resumed := resumed_text(result.resumed_from, result.resumed_order):
        yield resumed
    yield f"checkpoints  {_checkpoints(result)}"
    if adapter := adapter_text(plan, result):
        yield f"adapter      {adapter}"
    yield from tensorboard_lines(plan.run, folder=str(result.folder))
    yield from trace_lines(result.folder)
    if result.receipt:
        yield f"time         {receipt_line(result.receipt)}"
    if picture:
        yield f"loss curve   {picture}"
    yield f"record       {result.record}"
    if result.checkpoints:
        yield f"next         xsft sample {plan.run_name} --prompt TEXT, which asks the new weights"


def trace_lines(folder: Path) -> Iterator[str]:
    """Yield lines on the newest trace of the profiler, and the command that opens it; none without a trace."""
    if trace := newest_trace(folder):
        yield f"trace        {trace.path} ({size_text(trace.bytes)})"
        yield f"open it      {shlex.join(open_command(str(folder)))}"


def adapter_text(plan: Plan, result: LocalResult) -> str | None:
    """Return the size of the adapters that LoRA saved; the model itself is unchanged."""
    if plan.run.spec.lora is None or not result.checkpoints:
        return None
    saved = result.checkpoints[-1] / trainer_of(plan.run).WEIGHTS
    adapter = parameters(read_checkpoint(str(saved)).arrays)
    parameter_count = (weights_bytes(plan.run) or 0) // BF16_BYTES
    on_disk = sum(f.stat().st_size for f in saved.rglob("*") if f.is_file())
    text = f"{size_text(on_disk)} on disk" + (f", {adapter:,} parameters" if adapter else "")
    if not (parameter_count and adapter):
        return text
    width = 2 if plan.run.spec.train.weight_dtype == "bfloat16" else 4
    share = 100 * adapter / parameter_count
    model = f"{parameter_count:,} parameters, {size_text(parameter_count * width)}"
    return f"{text}; the whole model is {model} ({share:.2g} %)"


def _interrupted_lines(result: LocalResult) -> Iterator[str]:
    yield f"interrupted after step {result.steps} of {result.steps_asked}; the trainer is stopped"
    if result.checkpoints:
        last = result.checkpoints[-1]
        yield f"last checkpoint: {last} (step {last.name}); run the command again to resume"
    else:
        yield "no checkpoint was saved yet; the same command starts over"


def _losses(result: LocalResult) -> str:
    if result.first_loss is None or result.last_loss is None:
        return ""
    return f", loss {result.first_loss:.3f} -> {result.last_loss:.3f}"


def _checkpoints(result: LocalResult) -> str:
    if not result.checkpoints:
        return "none"
    return f"{result.checkpoints[0].parent}/{{{','.join(path.name for path in result.checkpoints)}}}"


def receipt_line(receipt: Receipt) -> str:
    """Return the time by state in one line, the states that took a second or more."""
    parts = ((state, receipt.seconds.get(state, 0.0)) for state in SPENT)
    return ", ".join(f"{duration_text(seconds)} {state}" for state, seconds in parts if seconds >= 1)
