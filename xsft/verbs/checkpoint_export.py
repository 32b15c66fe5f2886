"""`xsft checkpoint export RUN|FILE`: write trained weights as a Hugging Face model, and verify it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Literal

from msgspec.structs import replace

from xsft.base.errors import INTERRUPTED, RunFailed
from xsft.base.problems import Problem
from xsft.planning import api
from xsft.records.record_files import record_store
from xsft.stages.cluster_job import JobRequest, SharedIntent, StageOnCluster, do_alone
from xsft.stages.export import BUCKET, ExportJob, ExportResult, exported_here, intended_training, no_logits
from xsft.stages.exported import training_of
from xsft.verbs.document import (
    document_of,
    print_to_stderr,
    problem_documents,
    refuse_options,
    report_document,
    request_of,
)
from xsft.verbs.terminal import terminal
from xsft.verbs.weights_job import WeightsDocument, cluster_call, refuse_timeout_alone, report_cpu_job
from xsft.weights.export_record import ExportPlan, Verification, verification_text
from xsft.weights.exporter import ExportRequest, TrainedRun

WORKLOADS = (".yaml", ".yml")


class ExportDocument(WeightsDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.checkpoint-export/1"):
    """`xsft checkpoint export RUN|FILE --json`."""

    step: int
    form: Literal["full", "adapters", "merged"]
    dtype: Literal["bfloat16", "float32"]
    folder: str | None
    """The Hugging Face folder: on this machine, gs://…, or hf://owner/name."""
    verification: Verification | None
    """What was compared; null before a job on a cluster has ended."""


def run(args: argparse.Namespace) -> int:
    if args.what.endswith(WORKLOADS):
        return _of_file(args)
    _refuse_export_options(args, on_cluster=False)
    trained = training_of(args.what, record_store())
    if trained.output.startswith(BUCKET):
        print_to_stderr(
            f"xsft: {trained.run_name} is exported on this machine, which reads its weights from {trained.output}. "
            "To send a job to its cluster instead, give its workload: xsft checkpoint export FILE.yaml"
        )
    return _export_here(trained, args)


def _of_file(args: argparse.Namespace) -> int:
    workload = api.load(args.what, settings=args.settings, run_name=args.run_name)
    (intent,) = api.intend((workload,))
    to_folder = args.output is not None and "://" not in args.output
    on_this_machine = workload.spec.on_this_machine or to_folder
    _refuse_export_options(args, on_cluster=not on_this_machine)
    if on_this_machine:
        return _export_here(intended_training(intent), args)
    shared = SharedIntent(workload, known=intent)
    job = ExportJob(intent=shared, request=request_of(args, ExportRequest), to=args.output)
    stage = StageOnCluster(job, training=intent.run.run_name, call=cluster_call(args))
    outcome = do_alone(stage, request_of(args, JobRequest), show=lambda _plan, _done: nullcontext(print_to_stderr))
    export = outcome.plan
    verified = export.recorded.verification if export.recorded else None

    def describe(action: str, writes: str | None, problems: tuple[Problem, ...]) -> ExportDocument:
        if writes is None:
            why, folder = "it already exists", export.writes
            return _document(export, action, why=why, folder=folder, verification=verified, problems=problems)
        why = f"{export.run_name} is already exporting it" if action == "adopted" else export.why
        return _document(export, action, why=why, folder=writes, verification=None, problems=problems)

    inputs = export.inputs
    work = f"step {inputs.step} of {export.training}, {inputs.form}, {inputs.dtype}; MaxText {inputs.release}"
    return report_cpu_job(outcome, as_json=args.json, describe=describe, existing=_export_lines, work=work)


def _document(
    plan: ExportPlan,
    action: str,
    *,
    why: str,
    folder: str | None,
    verification: Verification | None,
    problems: Iterable[Problem] = (),
) -> ExportDocument:
    return document_of(
        ExportDocument,
        plan,
        action=action,
        why=why,
        folder=folder,
        verification=verification,
        training=plan.training,
        digest=plan.digest,
        not_whole=plan.broken,
        step=plan.inputs.step,
        form=plan.inputs.form,
        dtype=plan.inputs.dtype,
        problems=problem_documents(problems),
    )


def export_document(result: ExportResult) -> ExportDocument:
    """Return the document of an export on this machine."""
    document = _document(
        result.plan, result.action, why=result.end.why, folder=result.end.result, verification=result.end.verification
    )
    record, log = (str(path) if path else None for path in (result.record, result.log))
    return replace(document, record=record, log=log)


def _export_lines(document: ExportDocument) -> Iterator[str]:
    done = "found" if document.action == "finished" else "exported"
    yield f"{document.training}, step {document.step}, {document.form}: {done}"
    yield f"folder    {document.folder}"
    yield f"verified  {verification_text(document.verification)}"
    for incomplete in document.not_whole:
        yield f"incomplete {incomplete} (kept; delete it if you like)"
    if document.record:
        yield f"record    {document.record}"


def _refuse_export_options(args: argparse.Namespace, *, on_cluster: bool) -> None:
    """Raise UsageError for options of the other place."""
    if not on_cluster:
        of_clusters = {"--dry-run": args.dry_run, "--wait": args.wait, "--yes": args.yes}
        refuse_options(of_clusters, "is for a workload of a cluster: xsft checkpoint export FILE")
    refuse_timeout_alone(args)
    if on_cluster and args.verify == "logits":
        raise no_logits()


def _export_here(trained: TrainedRun, args: argparse.Namespace) -> int:
    logits = args.verify == "logits"
    result = exported_here(trained, request_of(args, ExportRequest), to=args.output, logits=logits, listener=terminal())
    match result.end.outcome:
        case "completed":
            return report_document(export_document(result), _export_lines, as_json=args.json)
        case "interrupted":
            print_to_stderr(f"interrupted: {result.plan.directory} stays; the same command exports again")
            return INTERRUPTED
        case _:
            where = f"The whole output: {result.log}. " if result.log else ""
            fix = f"{where}{result.plan.directory} is kept, but is incomplete."
            raise RunFailed(f"{result.plan.run_name}: {result.end.reason}", fix=fix, id="export-failed")
