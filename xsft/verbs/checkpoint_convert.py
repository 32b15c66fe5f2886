"""`xsft checkpoint convert FILE`: convert Hugging Face weights into the checkpoint that the workload starts from."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from xsft.base.errors import INTERRUPTED, RunFailed
from xsft.base.problems import Problem
from xsft.planning import api
from xsft.records.record_files import record_store
from xsft.spec.conversion_inputs import ConversionSource
from xsft.stages.cluster_job import JobRequest, SharedIntent, StageOnCluster, do_alone
from xsft.stages.convert import ConversionResult
from xsft.stages.convert_stage import ConversionJob, converted_here, show_conversion
from xsft.stages.once import ConversionClaim, read_claim
from xsft.verbs.document import (
    document_of,
    print_problems,
    print_to_stderr,
    problem_documents,
    refuse_options,
    report_document,
    request_of,
)
from xsft.verbs.terminal import terminal
from xsft.verbs.weights_job import WeightsDocument, cluster_call, refuse_timeout_alone, report_cpu_job
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import ConversionEstimate


class ConversionDocument(
    WeightsDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.checkpoint-convert/1"
):
    """`xsft checkpoint convert FILE --json`."""

    checkpoint: str | None
    """load_parameters_path of the training."""
    source: ConversionSource
    model: str
    estimate: ConversionEstimate | None
    """Estimated sizes; null if the model's size is unknown."""
    owner: ConversionClaim | None = None
    """On a cluster: the run that owns the conversion; null before anything was sent, and if the checkpoint existed."""


def run(args: argparse.Namespace) -> int:
    workload = api.load(args.what, settings=args.settings, run_name=args.run_name)
    _refuse_convert_options(args, on_cluster=workload.spec.on_cluster)
    if workload.spec.on_cluster:
        return _on_cluster(workload, args)
    result = converted_here(workload, terminal())
    if result.end.outcome == "completed":
        return report_document(conversion_document(result), _conversion_lines, as_json=args.json)
    print_problems(result.end.warnings)
    match result.end.outcome:
        case "interrupted":
            print_to_stderr(f"interrupted: {result.plan.run_name} is stopped")
            print_to_stderr(f"kept: {result.plan.directory}; the same command converts again, unless it is complete")
            return INTERRUPTED
        case _:
            fix = f"The whole output: {result.log}. What was written stays; the same command converts again."
            raise RunFailed(f"{result.plan.run_name}: {result.end.reason}", fix=fix)


def conversion_document(result: ConversionResult) -> ConversionDocument:
    """Return the document of a conversion on this machine."""
    document = _document(
        result.plan,
        action=result.action,
        why=result.end.why,
        checkpoint=result.end.result,
        problems=result.end.warnings,
    )
    record, log = (str(path) if path else None for path in (result.record, result.log))
    return replace(document, record=record, log=log)


def _document(
    plan: ConversionPlan, *, action: str, why: str, checkpoint: str | None, problems: Iterable[Problem]
) -> ConversionDocument:
    return document_of(
        ConversionDocument,
        plan,
        action=action,
        why=why,
        checkpoint=checkpoint,
        digest=plan.digest,
        not_whole=plan.broken,
        source=plan.inputs.source,
        model=plan.inputs.model,
        problems=problem_documents(problems),
    )


def _conversion_lines(document: ConversionDocument) -> Iterator[str]:
    done = "found" if document.action == "finished" else "converted"
    yield f"{document.source.repo} for {document.model}: {done}; {document.why}"
    yield f"checkpoint  {document.checkpoint}"
    for incomplete in document.not_whole:
        yield f"incomplete  {incomplete} (kept; delete it if you like)"
    if document.record:
        yield f"record      {document.record}"


def _on_cluster(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    call, intent = cluster_call(args), SharedIntent(workload, known=None)
    job = ConversionJob(intent=intent, listener=call.listener, on_tpu=args.on_tpu)
    stage = StageOnCluster(job, training=intent.now().run.run_name, call=call)
    outcome = do_alone(stage, request_of(args, JobRequest), show=partial(show_conversion, listener=call.listener))
    conversion = outcome.plan

    def describe(action: str, writes: str | None, problems: tuple[Problem, ...]) -> ConversionDocument:
        why = f"{conversion.run_name} is converting the same weights" if action == "adopted" else conversion.why
        if writes is None:
            why = "it already exists"
        checkpoint = writes or conversion.whole
        document = _document(conversion, action=action, why=why, checkpoint=checkpoint, problems=problems)
        if writes is None:
            return document
        return replace(document, owner=read_claim(record_store(), conversion))

    source, model = conversion.inputs.source, conversion.inputs.model
    revision = f" at {source.revision}" if source.revision else ""
    work = f"{source.repo}{revision} for {model}; MaxText {conversion.inputs.release}"
    return report_cpu_job(outcome, as_json=args.json, describe=describe, existing=_conversion_lines, work=work)


def _refuse_convert_options(args: argparse.Namespace, *, on_cluster: bool) -> None:
    if not on_cluster:
        of_clusters = {"--dry-run": args.dry_run, "--wait": args.wait, "--yes": args.yes, "--on-tpu": args.on_tpu}
        refuse_options(of_clusters, "is for a cluster: the workload converts on this machine")
    refuse_timeout_alone(args)
