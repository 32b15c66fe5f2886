"""The steps that all verbs share for a CPU job: submit it, follow it to its end, and record that end."""

from __future__ import annotations

from functools import partial
from typing import Generic, TextIO, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft import jobs
from xsft.actions.listener import ActionListener, AskUser
from xsft.actions.runs.waiting import Waited, WaitLimits
from xsft.actions.submit.cluster import SubmissionEnd, Wait, submit_cluster
from xsft.actions.submit.wait import After, after_plan
from xsft.conversion.plan import ConversionPlan
from xsft.effects.records.records import record_store
from xsft.effects.submit.job_end import record_job_end
from xsft.effects.submit.submission import Submission
from xsft.export.plan import ExportPlan
from xsft.launchers.cpujob import CpuJob
from xsft.problems import Problem
from xsft.steps import JobPlan

Made = TypeVar("Made", ConversionPlan, ExportPlan)


class CpuJobRequest(Struct, frozen=True, kw_only=True):
    """The options with which a CPU job is requested."""

    dry_run: bool
    """Whether the job is only planned."""
    waits: bool
    """Whether to wait for its end."""
    limits: WaitLimits
    ask: AskUser | None
    """Asks before a node is used; None: do not ask."""


class ResultFound(Struct, Generic[Made], frozen=True, kw_only=True):
    """A result that exists, so that no job is needed."""

    made: Made
    problems: tuple[Problem, ...]


class CpuJobPlanned(Struct, Generic[Made], frozen=True, kw_only=True):
    """A job that would be created."""

    made: Made
    plan: JobPlan[CpuJob]


class CpuJobSubmitted(Struct, Generic[Made], frozen=True, kw_only=True):
    """A job that was created or found."""

    made: Made
    end: SubmissionEnd


def submit_cpu_job(
    plan: JobPlan[CpuJob], request: CpuJobRequest, *, wait: Wait, listener: ActionListener
) -> SubmissionEnd:
    """Submit the job, and wait for its end if that is requested. Raises as `submit_cluster`."""
    return submit_cluster(
        plan,
        connect=partial(jobs.submitter_for, plan),
        listener=listener,
        ask=request.ask,
        wait=wait if request.waits else None,
    )


def following(plan: JobPlan[CpuJob], limits: WaitLimits, *, log: TextIO, listener: ActionListener) -> After:
    """Return what waits for the job's end and writes its log lines to `log`."""
    return after_plan(plan, patience=limits, log=log, listener=listener)


def cpu_job_of(done: Submission) -> CpuJob:
    assert isinstance(done.plan, JobPlan)
    assert isinstance(done.plan.job, CpuJob)
    return done.plan.job


def record_ended(done: Submission, waited: Waited) -> Waited:
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
