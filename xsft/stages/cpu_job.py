"""The CPU jobs of `xsft checkpoint convert` and `xsft checkpoint export` on a cluster: each is created once."""

from __future__ import annotations

from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import UsageError
from xsft.base.problems import Problem
from xsft.base.reporting import AskUser, Reporter
from xsft.launch.submission import Submission
from xsft.launch.submit import SubmissionEnd, submit_cluster
from xsft.launch.wait_for_end import after_plan
from xsft.launcher.cpujob import EXPORTED, CpuJob
from xsft.machine import clock
from xsft.machine.growth import watch_growth
from xsft.machine.interrupts import NOTHING_CREATED, when_interrupted
from xsft.planning.steps import Intent, JobPlan
from xsft.records.record_files import record_store
from xsft.runs.record_end import record_job_end
from xsft.runs.waiting import WaitLimits, WaitResult
from xsft.spec.export_inputs import destination
from xsft.spec.resolve import Run
from xsft.stages import jobs
from xsft.stages.claims import ConversionClaim, read_claim, take_claim, under_claim
from xsft.stages.exported import plan_export
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.conversion_progress import BytesDone
from xsft.weights.export_plan import ExportPlan
from xsft.weights.exporter import ExportRequest, TrainedRun

CpuPlan = TypeVar("CpuPlan", ConversionPlan, ExportPlan)


class CpuJobRequest(Struct, frozen=True, kw_only=True):
    """The options with which a CPU job is requested."""

    dry_run: bool
    """Whether the job is only planned."""
    waits: bool
    """Whether to wait for its end."""
    limits: WaitLimits
    ask: AskUser | None
    """Asks before a node is used; None: do not ask."""


class ResultFound(Struct, Generic[CpuPlan], frozen=True, kw_only=True):
    """A result that exists, so that no job is needed."""

    made: CpuPlan
    problems: tuple[Problem, ...]


class CpuJobPlanned(Struct, Generic[CpuPlan], frozen=True, kw_only=True):
    """A job that would be created."""

    made: CpuPlan
    plan: JobPlan[CpuJob]


class CpuJobSubmitted(Struct, Generic[CpuPlan], frozen=True, kw_only=True):
    """A job that was created or found."""

    made: CpuPlan
    end: SubmissionEnd


def cpu_job_of(done: Submission) -> CpuJob:
    assert isinstance(done.plan, JobPlan)
    assert isinstance(done.plan.job, CpuJob)
    return done.plan.job


def record_ended(done: Submission, waited: WaitResult) -> WaitResult:
    """Record how the job ended, if it has, by its result: no exit status is proof, and its JobSet is deleted some hours
    later. Return the wait, with the problems of that."""
    if waited.outcome not in ("reached", "ended"):
        return waited
    lacking = (waited.row and waited.row.reason) or "what it wrote is not complete"
    reason = None if jobs.is_made(cpu_job_of(done)) else lacking
    problems = record_job_end(
        record_store(),
        output=str(done.plan.run.output),
        run_name=done.plan.run_name,
        outcome="failed" if reason else "completed",
        reason=reason,
        uid=done.uid,
    )
    return replace(waited, problems=(*waited.problems, *problems))


def record_found(output: str, *, run_name: str) -> tuple[Problem, ...]:
    """Complete the record of a result that exists, if a job of a cluster made it; return warnings."""
    return record_job_end(record_store(), output=output, run_name=run_name, outcome="completed")


ConvertedByJob = ResultFound[ConversionPlan] | CpuJobPlanned[ConversionPlan] | CpuJobSubmitted[ConversionPlan]


def convert_cluster(
    made: ConversionPlan,
    run: Run,
    *,
    file: str,
    problems: tuple[Problem, ...],
    on_tpu: bool,
    request: CpuJobRequest,
    listener: Reporter,
) -> tuple[ConvertedByJob, ConversionClaim | None]:
    """Return the finished checkpoint, else the plan of the job for a dry run, else the job, which is submitted; and
    whose conversion it is. Raises as `jobs.plan_conversion` and `submit_cluster` do.
    """
    store = record_store()
    claim = read_claim(store, made)
    made = under_claim(made, claim)
    if made.whole:
        return ResultFound(made=made, problems=record_found(made.output, run_name=made.run_name)), claim
    with when_interrupted(NOTHING_CREATED), listener.working("xsft") as progress:
        plan_of = partial(jobs.plan_conversion, run=run, file=file, problems=problems, progress=progress, on_tpu=on_tpu)
        plan = plan_of(made)
        if request.dry_run:
            return CpuJobPlanned(made=made, plan=plan), claim
        claim = take_claim(store, made)
        if claim.run_name != made.run_name:  # another caller submitted it after the plan was made
            made = under_claim(made, claim)
            plan = plan_of(made)
    if claim.training != run.run_name:
        begun = f"begun for {claim.training} by {claim.user or 'unknown'} at {claim.at or 'unknown'}"
        listener.say(
            f"{claim.run_name}, {begun}, is the conversion of these weights into this output: this call joins it"
        )
    wait = partial(_wait_for_conversion, plan, made, request.limits, listener) if request.waits else None
    connect = partial(jobs.submitter_for, plan)
    end = submit_cluster(plan, connect=connect, listener=listener, ask=request.ask, wait=wait)
    return CpuJobSubmitted(made=made, end=end), claim


class ConvertingOnCluster(Struct, frozen=True):
    """Activity: a conversion on a cluster is waited for."""


def _wait_for_conversion(
    plan: JobPlan[CpuJob], made: ConversionPlan, limits: WaitLimits, listener: Reporter, done: Submission
) -> WaitResult:
    """Wait for the job, show its progress, and record its end: the JobSet is deleted some hours later."""
    whole = made.estimate.output if made.estimate else None
    with listener.display(ConvertingOnCluster()) as display:

        def on_size(size: int) -> None:
            display(BytesDone(done=size, of=whole, at=clock.monotonic()))

        after = after_plan(plan, patience=limits, log=display, listener=listener)
        with watch_growth(cpu_job_of(done).writes.removesuffix("/0/items"), on_size=on_size):
            return record_ended(done, after.wait(done))


ExportedByJob = ResultFound[ExportPlan] | CpuJobPlanned[ExportPlan] | CpuJobSubmitted[ExportPlan]


def no_logits() -> UsageError:
    return UsageError(
        "The image of a cluster has no second engine: an export there is verified by its tensors only.",
        fix="Leave --verify logits out; or export here, to a folder: --output FOLDER --verify logits.",
        id="export-logits-cluster",
    )


def plan_for_pod(trained: TrainedRun, request: ExportRequest, *, to: str | None) -> ExportPlan:
    """Return the plan of an export by a pod. `to`: gs://…, a folder that pods mount, or hf://owner/name; None: beside
    the training. Raises as `plan_export`."""
    hub, output = destination(to)
    return plan_export(trained, replace(request, hub=hub), record_store(), output=output, folder=EXPORTED)


def export_cluster(
    intent: Intent, made: ExportPlan, *, file: str, request: CpuJobRequest, log: ShowLine, listener: Reporter
) -> ExportedByJob:
    """Return the finished export, else the plan of the job for a dry run, else the job, which is submitted; a wait
    shows its log by `log`. Raises as `jobs.plan_export_job` and `submit_cluster` do.
    """
    if made.whole:
        return ResultFound(made=made, problems=record_found(str(intent.run.output), run_name=made.run_name))
    with when_interrupted(NOTHING_CREATED), listener.working("xsft") as progress:
        plan = jobs.plan_export_job(made, intent.run, file=file, problems=intent.problems, progress=progress)
    if request.dry_run:
        return CpuJobPlanned(made=made, plan=plan)

    def wait(done: Submission) -> WaitResult:
        """Wait for the job with its log, and record its end by the record that the pod wrote last."""
        after = after_plan(plan, patience=request.limits, log=log, listener=listener)
        return record_ended(done, after.wait(done))

    connect = partial(jobs.submitter_for, plan)
    waits = wait if request.waits else None
    end = submit_cluster(plan, connect=connect, listener=listener, ask=request.ask, wait=waits)
    return CpuJobSubmitted(made=made, end=end)
