"""The cluster side of `xsft checkpoint export`: one CPU job, created once."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from msgspec.structs import replace

from xsft import jobs
from xsft.actions.runs.waiting import Waited
from xsft.actions.submit.cluster import PrintedDocument, submission_problems
from xsft.actions.submit.cpu_job import (
    cpu_job_of,
    following,
    record_ended,
    report_found,
    report_plan,
    submit_cpu_job,
    submitted_fields,
)
from xsft.effects.facts.exported import plan_export
from xsft.effects.records.records import record_store
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.effects.submit.submission import Submission
from xsft.errors import UsageError, XsftError
from xsft.export.inputs import destination
from xsft.export.plan import ExportPlan
from xsft.export.verification import verification_text
from xsft.launchers.cpujob import EXPORTED, CpuJob
from xsft.problems import Problem
from xsft.screen.checkpoint_documents import EXPORT, export_fields
from xsft.screen.cpu_plan_text import export_text
from xsft.screen.progress import shown
from xsft.steps import Intent, JobPlan
from xsft.trainers.export import ExportRequest, TrainedRun


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
    intent: Intent, trained: TrainedRun, request: ExportRequest, *, file: str, args: argparse.Namespace
) -> int:
    """Report the finished export, else plan the job, and submit it unless it is a dry run.

    Raises as `plan_for_pod`, `jobs.plan_export_job` and `submit_cluster` do.
    """
    made = plan_for_pod(trained, request, to=args.output)
    if made.whole:
        return _report_found_export(made, intent, as_json=args.json)
    with when_interrupted(NOTHING_CREATED), shown("xsft") as progress:
        plan = jobs.plan_export_job(made, intent.run, file=file, problems=intent.problems, progress=progress)
    if args.dry_run:
        return _dry_run(plan, made, as_json=args.json)
    return submit_cpu_job(
        plan, args, wait=partial(_wait_for_export, plan, args), document=partial(_cluster_export_document, made)
    )


def _report_found_export(made: ExportPlan, intent: Intent, *, as_json: bool) -> int:
    verified = made.recorded.verification if made.recorded else None

    def document(noted: tuple[Problem, ...]) -> PrintedDocument:
        return EXPORT, export_fields(
            made, action="finished", why="it already exists", folder=made.writes, verification=verified, problems=noted
        )

    lines = (
        f"{made.training}, step {made.inputs.step}, {made.inputs.form}: found; nothing was sent",
        f"model     {made.writes}",
        f"verified  {verification_text(verified)}",
    )
    text = "".join(f"{line}\n" for line in lines)
    return report_found(str(intent.run.output), run_name=made.run_name, as_json=as_json, document=document, text=text)


def _dry_run(plan: JobPlan[CpuJob], made: ExportPlan, *, as_json: bool) -> int:
    fields = export_fields(made, action="planned", why=_why_exporting(made), folder=made.writes, problems=plan.problems)
    return report_plan(plan, as_json=as_json, document=(EXPORT, fields), text=export_text(plan, made))


def _wait_for_export(plan: JobPlan[CpuJob], args: argparse.Namespace, done: Submission) -> Waited:
    """Wait for the job with its log, and record its end by the record that the pod wrote last."""
    return record_ended(done, following(plan, args, log=sys.stderr).wait(done))


def _why_exporting(made: ExportPlan) -> str:
    if made.broken:
        return f"{', '.join(made.broken)} is incomplete and is kept"
    return f"step {made.inputs.step} was not exported"


def _cluster_export_document(
    made: ExportPlan, done: Submission, waited: Waited | None, failed: XsftError | None
) -> PrintedDocument:
    why = f"{made.run_name} is already exporting it" if done.action == "adopted" else _why_exporting(made)
    problems = submission_problems(done, waited, failed)
    fields = export_fields(made, action=done.action, why=why, folder=cpu_job_of(done).writes, problems=problems)
    return EXPORT, {**fields, **submitted_fields(done, waited, failed)}
