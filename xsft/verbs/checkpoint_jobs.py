"""`xsft checkpoint convert FILE` and `export RUN|FILE`: weights from and to Hugging Face, each on this machine, or as a
job on a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from xsft.base.errors import INTERRUPTED, RunFailed, UsageError
from xsft.base.names import StageWork
from xsft.base.problems import Problem
from xsft.catalog.machines import GIB
from xsft.launcher.cpujob import CpuJob
from xsft.planning import api
from xsft.planning.steps import JobPlan
from xsft.records.record_files import record_store
from xsft.runs.rows import Row
from xsft.spec.conversion_inputs import ConversionSource
from xsft.stages.cluster_job import (
    ClusterCall,
    JobFound,
    JobPlanned,
    JobRequest,
    JobSubmitted,
    SharedIntent,
    StageOnCluster,
    cpu_job_of,
    do_alone,
)
from xsft.stages.convert import ConversionResult
from xsft.stages.convert_stage import ConversionJob, converted_here, show_conversion
from xsft.stages.export import BUCKET, ExportJob, ExportResult, exported_here, intended_training, no_logits
from xsft.stages.exported import training_of
from xsft.stages.once import ConversionClaim, read_claim
from xsft.verbs.document import (
    Document,
    VerbDocument,
    asker,
    document_of,
    print_problems,
    print_to_stderr,
    problem_documents,
    refuse_options,
    report_document,
    request_of,
    status_of,
)
from xsft.verbs.plan_text import cluster_text, command_blocks, evidence_blocks, ready_text, secrets_text
from xsft.verbs.submission import report_submission
from xsft.verbs.terminal import terminal
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.estimates import ConversionEstimate
from xsft.weights.export_record import ExportPlan, Verification, verification_text
from xsft.weights.exporter import ExportRequest, TrainedRun

WORKLOADS = (".yaml", ".yml")
TITLES: Mapping[StageWork, str] = {"convert": "conversion", "evaluate": "evaluation", "export": "export"}
DISK: Mapping[StageWork, str] = {"convert": "the download", "export": "the model, before it is copied"}
"""What the disk of a job is for."""


class CpuJobDocument(Document, frozen=True, kw_only=True):
    """A job on a cluster: one pod on a CPU node, or a slice on which one host works."""

    jobset: str | None
    uid: str | None = None
    """UID of the JobSet; null for a dry run."""
    namespace: str
    queue: str
    cpus: int | None
    """Requested CPUs; null on a slice, which requests only chips."""
    memory_bytes: int
    """Estimated memory in bytes; the pod requests it in whole GiB, except on a slice."""
    disk_bytes: int
    machine: str
    """GCE machine type: the smallest one of xpk that is large enough, or that of the slice's hosts."""
    tpu: str | None = None
    """TPU type of the slice, with --on-tpu."""
    chips: int = 0
    """Number of idle chips, with --on-tpu."""
    xpk_argv: tuple[str, ...] | None
    by_hand: tuple[str, ...]
    """Parts of the JobSet that the xpk command alone would not create."""
    manifest: dict[str, Any] | None = None
    """The JobSet, for a dry run."""


class WeightsDocument(VerbDocument, frozen=True, kw_only=True):
    """The fields of a conversion and of an export."""

    run_name: str
    """Run name of the job: `<training>-convert` or `<training>-export`."""
    training: str
    action: Literal["planned", "created", "attempt", "adopted", "finished"]
    """`finished`: the result existed. `created`, `attempt`: made now, by the first or a later attempt. `adopted`: a
    live job makes it. `planned`: a dry run; nothing was sent."""
    why: str
    digest: str
    """Digest of all inputs, 64 hex digits; the folder's name contains 12 of them."""
    not_whole: tuple[str, ...]
    """Folders of attempts that did not complete; they are kept."""
    argv: tuple[str, ...]
    """Arguments of MaxText's to_maxtext or to_huggingface; empty if the result existed and has no record."""
    record: str | None = None
    """Path of the run's record; null if the result existed already."""
    log: str | None = None
    job: CpuJobDocument | None = None
    """The job on a cluster; null on this machine, and if the result existed."""
    run: Row | None = None
    """With --wait: the run, as `xsft status` shows it."""


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


class ExportDocument(WeightsDocument, frozen=True, kw_only=True, tag_field="schema", tag="xsft.checkpoint-export/1"):
    """`xsft checkpoint export RUN|FILE --json`."""

    step: int
    form: Literal["full", "adapters", "merged"]
    dtype: Literal["bfloat16", "float32"]
    folder: str | None
    """The Hugging Face folder: on this machine, gs://…, or hf://owner/name."""
    verification: Verification | None
    """What was compared; null before a job on a cluster has ended."""


WeightsPlan = TypeVar("WeightsPlan", ConversionPlan, ExportPlan)
AnyWeights = TypeVar("AnyWeights", bound=WeightsDocument)
DescribeWeights = Callable[[str, str | None, tuple[Problem, ...]], AnyWeights]
"""Return the document of an action, the result that a job writes (None: it exists) and problems."""


def convert(args: argparse.Namespace) -> int:
    workload = api.load(args.what, settings=args.settings, run_name=args.run_name)
    if not workload.spec.on_cluster:
        of_clusters = {"--dry-run": args.dry_run, "--wait": args.wait, "--yes": args.yes, "--on-tpu": args.on_tpu}
        refuse_options(of_clusters, "is for a cluster: the workload converts on this machine")
    refuse_timeout_alone(args)
    if workload.spec.on_cluster:
        return _convert_on_cluster(workload, args)
    result = converted_here(workload, terminal())
    plan, end = result.plan, result.end
    match end.outcome:
        case "completed":
            document = _conversion_document(
                plan, action=result.action, why=end.why, checkpoint=end.result, problems=end.warnings
            )
            document = replace(document, **_files_of(result))
            return report_document(document, _conversion_lines, as_json=args.json)
        case "interrupted":
            print_problems(end.warnings)
            print_to_stderr(f"interrupted: {plan.run_name} is stopped")
            print_to_stderr(f"kept: {plan.directory}; the same command converts again, unless it is complete")
            return INTERRUPTED
        case _:
            print_problems(end.warnings)
            fix = f"The whole output: {result.log}. What was written stays; the same command converts again."
            raise RunFailed(f"{plan.run_name}: {end.reason}", fix=fix)


def _convert_on_cluster(workload: api.LoadedWorkload, args: argparse.Namespace) -> int:
    call = cluster_call(args)
    intent = SharedIntent(workload, known=None)
    job = ConversionJob(intent=intent, listener=call.listener, on_tpu=args.on_tpu)
    stage = StageOnCluster(job, training=intent.now().run.run_name, call=call)
    outcome = do_alone(stage, request_of(args, JobRequest), show=partial(show_conversion, listener=call.listener))
    conversion = outcome.plan

    def describe(action: str, writes: str | None, problems: tuple[Problem, ...]) -> ConversionDocument:
        why = f"{conversion.run_name} is converting the same weights" if action == "adopted" else conversion.why
        if writes is None:
            why = "it already exists"
        checkpoint = writes or conversion.whole
        document = _conversion_document(conversion, action=action, why=why, checkpoint=checkpoint, problems=problems)
        if writes is None:
            return document
        return replace(document, owner=read_claim(record_store(), conversion))

    source, model = conversion.inputs.source, conversion.inputs.model
    revision = f" at {source.revision}" if source.revision else ""
    work = f"{source.repo}{revision} for {model}; MaxText {conversion.inputs.release}"
    return report_cpu_job(outcome, as_json=args.json, describe=describe, existing=_conversion_lines, work=work)


def _conversion_document(
    plan: ConversionPlan, *, action: str, why: str, checkpoint: str | None, problems: Iterable[Problem]
) -> ConversionDocument:
    return document_of(
        ConversionDocument,
        plan,
        action=action,
        why=why,
        checkpoint=checkpoint,
        not_whole=plan.broken,
        source=plan.inputs.source,
        model=plan.inputs.model,
        problems=problem_documents(problems),
        digest=plan.digest,
    )


def _conversion_lines(document: ConversionDocument) -> Iterator[str]:
    done = "found" if document.action == "finished" else "converted"
    yield f"{document.source.repo} for {document.model}: {done}; {document.why}"
    yield f"checkpoint  {document.checkpoint}"
    for incomplete in document.not_whole:
        yield f"incomplete  {incomplete} (kept; delete it if you like)"
    if document.record:
        yield f"record      {document.record}"


def export(args: argparse.Namespace) -> int:
    if args.what.endswith(WORKLOADS):
        return _export_file(args)
    _refuse_export_options(args, on_cluster=False)
    trained = training_of(args.what, record_store())
    if trained.output.startswith(BUCKET):
        print_to_stderr(
            f"xsft: {trained.run_name} is exported on this machine, which reads its weights from {trained.output}. "
            "To send a job to its cluster instead, give its workload: xsft checkpoint export FILE.yaml"
        )
    return _export_here(trained, args)


def _export_file(args: argparse.Namespace) -> int:
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
    plan = outcome.plan
    verified = plan.recorded.verification if plan.recorded else None

    def describe(action: str, writes: str | None, problems: tuple[Problem, ...]) -> ExportDocument:
        if writes is None:
            document = _export_document(plan, action=action, why="it already exists", folder=plan.writes)
            return replace(document, verification=verified, problems=problem_documents(problems))
        why = f"{plan.run_name} is already exporting it" if action == "adopted" else plan.why
        document = _export_document(plan, action=action, why=why, folder=writes)
        return replace(document, problems=problem_documents(problems))

    inputs = plan.inputs
    work = f"step {inputs.step} of {plan.training}, {inputs.form}, {inputs.dtype}; MaxText {inputs.release}"
    return report_cpu_job(outcome, as_json=args.json, describe=describe, existing=_export_lines, work=work)


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
    plan, end = result.plan, result.end
    match end.outcome:
        case "completed":
            document = _export_document(plan, action=result.action, why=end.why, folder=end.result)
            document = replace(document, verification=end.verification, **_files_of(result))
            return report_document(document, _export_lines, as_json=args.json)
        case "interrupted":
            print_to_stderr(f"interrupted: {plan.directory} stays; the same command exports again")
            return INTERRUPTED
        case _:
            where = f"The whole output: {result.log}. " if result.log else ""
            fix = f"{where}{plan.directory} is kept, but is incomplete."
            raise RunFailed(f"{plan.run_name}: {end.reason}", fix=fix, id="export-failed")


def _export_document(plan: ExportPlan, *, action: str, why: str, folder: str | None) -> ExportDocument:
    return document_of(
        ExportDocument,
        plan,
        action=action,
        why=why,
        folder=folder,
        verification=None,
        training=plan.training,
        digest=plan.digest,
        not_whole=plan.broken,
        step=plan.inputs.step,
        form=plan.inputs.form,
        dtype=plan.inputs.dtype,
    )


def _export_lines(document: ExportDocument) -> Iterator[str]:
    done = "found" if document.action == "finished" else "exported"
    yield f"{document.training}, step {document.step}, {document.form}: {done}"
    yield f"folder    {document.folder}"
    yield f"verified  {verification_text(document.verification)}"
    for incomplete in document.not_whole:
        yield f"incomplete {incomplete} (kept; delete it if you like)"
    if document.record:
        yield f"record    {document.record}"


def _files_of(result: ConversionResult | ExportResult) -> dict[str, str | None]:
    """Return the fields of the record and of the log."""
    return {
        "record": str(result.record) if result.record else None,
        "log": str(result.log) if result.log else None,
    }


def cluster_call(args: argparse.Namespace) -> ClusterCall:
    ask = asker(yes=args.yes or args.json)
    return ClusterCall(ask=ask, poll_s=args.poll_s, listener=terminal(as_json=args.json))


def refuse_timeout_alone(args: argparse.Namespace) -> None:
    """Raise UsageError for --timeout without --wait."""
    if args.timeout_s is not None and not args.wait:
        raise UsageError("--timeout needs --wait.", fix="Add --wait, or omit --timeout.")


def report_cpu_job(
    outcome: JobFound[WeightsPlan] | JobPlanned[WeightsPlan] | JobSubmitted[WeightsPlan],
    *,
    as_json: bool,
    describe: DescribeWeights[AnyWeights],
    existing: Callable[[AnyWeights], Iterable[str]],
    work: str,
) -> int:
    """Print the result that exists, the planned job, or how the submitted one ended; return the exit status.

    `existing`: returns the lines about a result that exists; `work`: what the job converts or exports.
    """
    match outcome:
        case JobFound(problems=problems):
            return report_document(describe("finished", None, problems), existing, as_json=as_json)
        case JobPlanned(job=plan):
            job = replace(_job_document(plan, plan.job), manifest=plan.manifest)
            document = describe("planned", plan.job.writes, plan.problems)
            document = replace(document, job=job, exit_status=status_of(plan.problems))
            lines = _plan_lines(plan, work=work, incomplete=outcome.plan.broken)
            return report_document(document, lambda _document: lines, as_json=as_json, shown=True)
        case JobSubmitted(end=end):
            submitted = cpu_job_of(end.done)
            assert isinstance(end.done.plan, JobPlan)
            job = replace(_job_document(end.done.plan, submitted), jobset=end.done.jobset, uid=end.done.uid)
            document = describe(end.done.action, submitted.writes, end.problems)
            document = replace(document, record=end.done.record, job=job, run=end.run)
            return report_submission(end, document, as_json=as_json)


def _job_document(plan: JobPlan[Any], job: CpuJob) -> CpuJobDocument:
    run = plan.run
    document = document_of(
        CpuJobDocument,
        plan,
        jobset=plan.jobset,
        namespace=run.namespace,
        queue=run.queue,
        cpus=job.cpus,
        memory_bytes=job.memory,
        disk_bytes=job.disk,
        machine=job.machine.machine,
        manifest=None,
    )
    if run.slice is None:
        return document
    return replace(document, cpus=None, machine=run.slice.machine_type, tpu=run.slice.xpk_type, chips=run.chips)


def _plan_lines(plan: JobPlan[CpuJob], *, work: str, incomplete: tuple[str, ...]) -> Iterator[str]:
    yield f"# {plan.file}"
    for label, text in _job_rows(plan, work=work, incomplete=incomplete):
        yield f"{label:<12}{text}"
    yield from command_blocks(plan, TITLES[plan.job.work], argv=plan.job.argv, env=plan.job.env)
    yield from evidence_blocks(plan)


def _job_rows(plan: JobPlan[CpuJob], *, work: str, incomplete: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    run, job = plan.run, plan.job
    yield "ready", ready_text(plan.problems)
    yield "run", f"{plan.run_name}, digest {plan.spec_digest[:12]}"
    yield f"{job.work}s", work
    yield "cluster", cluster_text(run)
    yield "JobSet", f"{plan.jobset} in namespace {run.namespace}, queue {run.queue}, priority {run.spec.priority}"
    if run.slice:
        yield "slice", f"{run.slice.describe}; {run.slice.machine_type} hosts, of which only the first works"
        yield "wasted", f"{run.chips} chips, until the {TITLES[job.work]} ends"
    else:
        yield "node", f"{job.cpus} CPUs and {job.memory_quantity} of memory, as {job.machine.machine} has"
    yield "disk", f"{job.disk / GIB:,.0f} GiB for {DISK[job.work]}"
    yield "secrets", secrets_text(run)
    yield "result", job.writes
    yield from (("incomplete", f"{folder} (kept)") for folder in incomplete)
