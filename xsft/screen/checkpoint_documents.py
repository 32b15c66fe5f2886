"""The fields of `xsft checkpoint convert --json` and `export --json`, on this machine and on clusters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import to_builtins

from xsft.actions.submit.cluster import SubmissionEnd
from xsft.actions.submit.cpu_job import cpu_job_of
from xsft.conversion.plan import ConversionPlan
from xsft.export.plan import ExportPlan
from xsft.export.verification import Verification
from xsft.launchers.cpujob import CpuJob
from xsft.problems import Problem
from xsft.screen.failure import problem_documents
from xsft.screen.submission import waited_fields
from xsft.steps import JobPlan, Planned

CONVERT = "checkpoint-convert"
EXPORT = "checkpoint-export"


def conversion_fields(
    made: ConversionPlan, *, action: str, why: str, checkpoint: str | None, problems: Iterable[Problem]
) -> dict[str, Any]:
    """Return the document's fields. `action`: as `ConversionDocument` explains it."""
    return {
        **_fields(made, action=action, why=why, problems=problems),
        "checkpoint": checkpoint,
        "source": to_builtins(made.inputs.source),
        "model": made.inputs.model,
        "estimate": to_builtins(made.estimate),
    }


def export_fields(
    made: ExportPlan,
    *,
    action: str,
    why: str,
    folder: str | None,
    verification: Verification | None = None,
    problems: Iterable[Problem] = (),
) -> dict[str, Any]:
    """Return the document's fields. `action`: as `ConversionDocument` explains it."""
    return {
        **_fields(made, action=action, why=why, problems=problems),
        "step": made.inputs.step,
        "form": made.inputs.form,
        "dtype": made.inputs.dtype,
        "folder": folder,
        "verification": to_builtins(verification),
    }


def _fields(made: ConversionPlan | ExportPlan, *, action: str, why: str, problems: Iterable[Problem]) -> dict[str, Any]:
    return {
        "run_name": made.run_name,
        "training": made.training,
        "action": action,
        "why": why,
        "digest": made.digest,
        "not_whole": list(made.broken),
        "argv": list(made.argv),
        "record": None,
        "log": None,
        "job": None,
        "problems": problem_documents(tuple(problems)),
    }


def planned_fields(plan: JobPlan[CpuJob]) -> dict[str, Any]:
    """Return the document's fields about a job that would be created."""
    return {"job": {**_job_fields(plan, plan.job), "manifest": plan.manifest}}


def submitted_fields(end: SubmissionEnd) -> dict[str, Any]:
    """Return the document's fields about a job that was submitted."""
    done = end.done
    job = {**_job_fields(done.plan, cpu_job_of(done)), "jobset": done.jobset, "uid": done.uid}
    return {"record": done.record, "job": job, **waited_fields(end)}


def _job_fields(plan: Planned, job: CpuJob) -> dict[str, Any]:
    run = plan.run
    return {
        "jobset": plan.jobset,
        "uid": None,
        "namespace": run.namespace,
        "queue": run.queue,
        "cpus": None if job.on_tpu else job.cpus,
        "memory_bytes": job.memory,
        "disk_bytes": job.disk,
        "machine": run.slice.machine_type if run.slice else job.machine.machine,
        "tpu": run.slice.xpk_type if run.slice else None,
        "chips": run.chips if job.on_tpu else 0,
        "xpk_argv": list(plan.xpk_argv) if plan.xpk_argv else None,
        "by_hand": list(plan.by_hand),
        "manifest": None,
    }
