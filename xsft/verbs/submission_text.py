"""A submission to a cluster as text: what the run takes, what was created, and where its results are."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.amounts import duration_text
from xsft.launch.proposal import Proposal
from xsft.launch.submission import Submission
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.slicejob import SliceJob
from xsft.planning.steps import JobPlan, Plan, Planned
from xsft.trainer.tensorboard import tensorboard_lines
from xsft.verbs.plan_summary import time_text
from xsft.verbs.resumed_text import ORDERS


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
        step = proposal.resumes_from
        begins = "no checkpoint was saved; it starts at step 0" if step is None else f"resumes from step {step}"
        yield f"attempt {proposal.attempt}: {begins}"
    if proposal.since is not None:
        yield f"changed since attempt {proposal.since}: {'; '.join(proposal.changed) or 'nothing'}"


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
