"""The cluster side of `xsft checkpoint export`: one CPU job, created once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from xsft import cpu_jobs
from xsft.commands.asking import at_terminal, confirm
from xsft.commands.cpu_job_run import following, job_fields, record_ended
from xsft.commands.cpu_plan_text import export_text
from xsft.commands.documents import print_json, status_of
from xsft.commands.export_document import KIND, export_fields
from xsft.commands.failure import print_problems
from xsft.commands.progress import shown
from xsft.commands.run_documents import run_document
from xsft.commands.submit_cluster import submit_cluster
from xsft.commands.waiting import Waited
from xsft.effects.facts.exported import plan_export
from xsft.effects.records.records import record_store
from xsft.effects.submit.interrupts import NOTHING_CREATED, when_interrupted
from xsft.effects.submit.job_end import record_job_end
from xsft.effects.submit.submission import Submission
from xsft.errors import UsageError, XsftError
from xsft.export.inputs import destination
from xsft.export.plan import ExportPlan
from xsft.export.verification import verification_text
from xsft.launchers.cpujob import EXPORTED
from xsft.steps import CpuPlan, Intent
from xsft.trainers.export import ExportRequest, TrainedRun


def no_logits() -> UsageError:
    return UsageError(
        "The image of a cluster has no second engine: an export there is verified by its tensors only.",
        fix="Leave --verify logits out; or export here, to a folder: --output FOLDER --verify logits.",
        id="export-logits-cluster",
    )


def plan_for_pod(trained: TrainedRun, asked: ExportRequest, *, to: str | None) -> ExportPlan:
    """Return the plan of an export by a pod. `to`: gs://…, a folder that pods mount, or hf://owner/name; None: beside
    the training. Raises as `plan_export`."""
    hub, output = destination(to)
    return plan_export(trained, replace(asked, hub=hub), record_store(), output=output, folder=EXPORTED)


def export_cluster(
    intent: Intent, trained: TrainedRun, asked: ExportRequest, *, file: str, args: argparse.Namespace
) -> int:
    """Report the finished export, else plan the job, and submit it unless it is a dry run.

    Raises as `plan_for_pod`, `cpu_jobs.plan_export_job` and `submit_cluster` do.
    """
    made = plan_for_pod(trained, asked, to=args.output)
    if made.whole:
        return _found(made, intent, as_json=args.json)
    with when_interrupted(NOTHING_CREATED), shown("xsft") as progress:
        plan = cpu_jobs.plan_export_job(made, intent.run, file=file, problems=intent.problems, progress=progress)
    if args.dry_run:
        return _dry_run(plan, made, as_json=args.json)
    return submit_cluster(
        plan,
        connect=partial(cpu_jobs.submitter_for, plan),
        json=args.json,
        wait=partial(_wait, plan, args) if args.wait else None,
        warnings=tuple(p for p in plan.problems if p.severity == "warning"),
        ask=confirm if at_terminal() and not (args.yes or args.json) else None,
        document=partial(_document, made),
    )


def _found(made: ExportPlan, intent: Intent, *, as_json: bool) -> int:
    """Report the export that exists; complete the record of the job that made it."""
    output = str(intent.run.output)
    noted = record_job_end(record_store(), output=output, run_name=made.run_name, outcome="completed")
    verified = made.recorded.verification if made.recorded else None
    if as_json:
        fields = export_fields(
            made, action="finished", why="it was there", folder=made.writes, verification=verified, problems=noted
        )
        print_json(KIND, fields)
    else:
        print_problems(noted)
        sys.stdout.writelines(f"{line}\n" for line in _found_text(made))
    return 0


def _found_text(made: ExportPlan) -> Iterator[str]:
    yield f"{made.training}, step {made.inputs.step}, {made.inputs.form}: found; nothing was sent"
    yield f"model     {made.writes}"
    yield f"verified  {verification_text(made.recorded.verification if made.recorded else None)}"


def _dry_run(plan: CpuPlan, made: ExportPlan, *, as_json: bool) -> int:
    if as_json:
        fields = export_fields(made, action="planned", why=_why(made), folder=made.writes, problems=plan.problems)
        print_json(KIND, {**fields, "job": {**job_fields(plan), "manifest": plan.manifest}})
    else:
        sys.stdout.write(export_text(plan, made))
    return status_of(plan.problems)


def _wait(plan: CpuPlan, args: argparse.Namespace, done: Submission) -> Waited:
    """Wait for the job with its log, and record its end by the record that the pod wrote last."""
    waited = following(plan, args, log=sys.stderr).wait(done)
    if waited.outcome not in ("reached", "ended"):
        return waited
    assert isinstance(done.plan, CpuPlan)
    whole = cpu_jobs.is_made(done.plan.job)
    ended = record_ended(done, waited, reason=None if whole else "what it wrote is not complete")
    return replace(waited, problems=(*waited.problems, *ended))


def _why(made: ExportPlan) -> str:
    if made.broken:
        return f"{', '.join(made.broken)} is not complete; it stays"
    return f"step {made.inputs.step} was not exported"


def _document(
    made: ExportPlan, done: Submission, waited: Waited | None, failed: XsftError | None
) -> tuple[str, dict[str, Any]]:
    plan = done.plan
    assert isinstance(plan, CpuPlan)
    problems = (*done.problems, *(waited.problems if waited else ()), *(failed.problems if failed else ()))
    why = f"{made.run_name} does it already" if done.action == "adopted" else _why(made)
    fields = export_fields(made, action=done.action, why=why, folder=plan.job.writes, problems=problems)
    fields |= {"record": done.record, "job": {**job_fields(plan), "jobset": done.jobset, "uid": done.uid}}
    if waited:
        row = waited.row
        fields |= {"run": run_document(row) if row else None, "exit_status": failed.exit_status if failed else 0}
    return KIND, fields
