"""The cluster side of `xsft checkpoint convert`: one CPU job, created once."""

from __future__ import annotations

from functools import partial

from xsft.base.problems import Problem
from xsft.launch.listener import ActionListener
from xsft.launch.submission import Submission
from xsft.launch.submit_to_cluster import submit_cluster
from xsft.launch.wait_for_end import after_plan
from xsft.launcher.cpujob import CpuJob
from xsft.machine import clock
from xsft.machine.growth import watch_growth
from xsft.machine.interrupts import NOTHING_CREATED, when_interrupted
from xsft.planning.steps import JobPlan
from xsft.records.record_files import record_store
from xsft.runs.waiting import WaitLimits, WaitResult
from xsft.spec.resolve import Run
from xsft.stages import jobs
from xsft.stages.claims import ConversionClaim, read_claim, take_claim, under_claim
from xsft.stages.cpu_job import (
    CpuJobPlanned,
    CpuJobRequest,
    CpuJobSubmitted,
    ResultFound,
    cpu_job_of,
    record_ended,
    record_found,
)
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.conversion_progress import BytesDone

ConvertedByJob = ResultFound[ConversionPlan] | CpuJobPlanned[ConversionPlan] | CpuJobSubmitted[ConversionPlan]


def convert_cluster(
    made: ConversionPlan,
    run: Run,
    *,
    file: str,
    problems: tuple[Problem, ...],
    on_tpu: bool,
    request: CpuJobRequest,
    listener: ActionListener,
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


def _wait_for_conversion(
    plan: JobPlan[CpuJob], made: ConversionPlan, limits: WaitLimits, listener: ActionListener, done: Submission
) -> WaitResult:
    """Wait for the job, show its progress, and record its end: the JobSet is deleted some hours later."""
    display = listener.converting_on_cluster()
    after = after_plan(plan, patience=limits, log=display.on_line, listener=listener)
    whole = made.estimate.output if made.estimate else None

    def on_size(size: int) -> None:
        display.on_event(BytesDone(done=size, of=whole, at=clock.monotonic()))

    with watch_growth(cpu_job_of(done).writes.removesuffix("/0/items"), on_size=on_size):
        return record_ended(done, after.wait(done))
