"""What all verbs share for a CPU job: its request, its outcomes, and the record of its end."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.problems import Problem
from xsft.base.reporting import AskUser
from xsft.launch.submission import Submission
from xsft.launch.submit_to_cluster import SubmissionEnd
from xsft.launcher.cpujob import CpuJob
from xsft.planning.steps import JobPlan
from xsft.records.record_files import record_store
from xsft.runs.record_end import record_job_end
from xsft.runs.waiting import WaitLimits, WaitResult
from xsft.stages import jobs
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.export_plan import ExportPlan

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
