"""What `xsft checkpoint convert` and `export` print about a job, and the fields of their documents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import to_builtins

from xsft.base.problems import Problem
from xsft.launcher.cpujob import CpuJob
from xsft.planning.steps import JobPlan, Planned
from xsft.stages.convert import ConversionResult
from xsft.stages.cpu_job import CpuJobPlanned, CpuJobSubmitted, CpuPlan, ResultFound, cpu_job_of
from xsft.stages.export import ExportResult
from xsft.verbs.failure import print_problems, problem_documents
from xsft.verbs.plan_document import print_json, print_lines, status_of
from xsft.verbs.submission import report_submission, waited_fields
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.export_plan import ExportPlan
from xsft.weights.export_verification import Verification

CONVERT = "checkpoint-convert"
EXPORT = "checkpoint-export"


def conversion_document(result: ConversionResult) -> dict[str, Any]:
    """Return the document `xsft.checkpoint-convert/1` without its schema."""
    fields = conversion_fields(
        result.plan, action=result.action, why=result.why, checkpoint=result.checkpoint, problems=result.warnings
    )
    return {**fields, **result_fields(result)}


def export_document(result: ExportResult) -> dict[str, Any]:
    """Return the document `xsft.checkpoint-export/1` without its schema."""
    verified = result.verification
    fields = export_fields(
        result.plan, action=result.action, why=result.why, folder=result.folder, verification=verified
    )
    return {**fields, **result_fields(result)}


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


def result_fields(result: ConversionResult | ExportResult) -> dict[str, Any]:
    """Return the document's fields about files on this machine."""
    return {
        "record": str(result.record) if result.record else None,
        "log": str(result.log) if result.log else None,
    }


def report_cpu_job(
    found: ResultFound[CpuPlan] | CpuJobPlanned[CpuPlan] | CpuJobSubmitted[CpuPlan],
    kind: str,
    *,
    as_json: bool,
    fields: Callable[[str, str | None, tuple[Problem, ...]], dict[str, Any]],
    found_lines: Iterable[str],
    plan_text: Callable[[JobPlan[CpuJob], CpuPlan], str],
) -> int:
    """Print the result that exists, the planned job, or how the submitted one ended; return the exit status.

    `fields`: returns those of an action, what the job writes (None: nothing) and the problems.
    """
    match found:
        case ResultFound(problems=noted) if as_json:
            print_json(kind, fields("finished", None, noted))
            return 0
        case ResultFound(problems=noted):
            print_problems(noted)
            print_lines(found_lines)
            return 0
        case CpuJobPlanned(plan=plan):
            if as_json:
                job = {**_job_fields(plan, plan.job), "manifest": plan.manifest}
                print_json(kind, {**fields("planned", plan.job.writes, plan.problems), "job": job})
            else:
                sys.stdout.write(plan_text(plan, found.made))
            return status_of(plan.problems)
        case CpuJobSubmitted(end=end):
            done, cpu_job = end.done, cpu_job_of(end.done)
            job = {**_job_fields(done.plan, cpu_job), "jobset": done.jobset, "uid": done.uid}
            own = fields(done.action, cpu_job.writes, end.problems)
            document = {**own, "record": done.record, "job": job, **waited_fields(end)}
            return report_submission(end, json=as_json, document=(kind, document))


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
