"""What `xsft checkpoint convert` and `export` share: their job on a cluster as a document and as text."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from xsft.base.errors import UsageError
from xsft.base.names import StageWork
from xsft.base.problems import Problem
from xsft.catalog.machines import GIB
from xsft.launcher.cpujob import CpuJob
from xsft.planning.steps import JobPlan
from xsft.runs.rows import Row
from xsft.stages.cluster_job import ClusterCall, JobFound, JobPlanned, JobSubmitted, cpu_job_of
from xsft.verbs.document import Document, VerbDocument, asker, report_document, status_of
from xsft.verbs.plan_text import cluster_text, command_blocks, evidence_blocks, ready_text, secrets_text
from xsft.verbs.submission import report_submission
from xsft.verbs.terminal import terminal
from xsft.weights.conversion_plan import ConversionPlan
from xsft.weights.export_record import ExportPlan

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


WeightsPlan = TypeVar("WeightsPlan", ConversionPlan, ExportPlan)
AnyWeights = TypeVar("AnyWeights", bound=WeightsDocument)
DescribeWeights = Callable[[str, str | None, tuple[Problem, ...]], AnyWeights]
"""Return the document of an action, the result that a job writes (None: it exists) and problems."""


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
            planned = describe("planned", plan.job.writes, plan.problems)
            document = replace(planned, job=job, exit_status=status_of(plan.problems))
            lines = _plan_lines(plan, work=work, broken=outcome.plan.broken)
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
    document = CpuJobDocument(
        jobset=plan.jobset,
        namespace=run.namespace,
        queue=run.queue,
        cpus=job.cpus,
        memory_bytes=job.memory,
        disk_bytes=job.disk,
        machine=job.machine.machine,
        xpk_argv=plan.xpk_argv,
        by_hand=plan.by_hand,
    )
    if run.slice is None:
        return document
    return replace(document, cpus=None, machine=run.slice.machine_type, tpu=run.slice.xpk_type, chips=run.chips)


def _plan_lines(plan: JobPlan[CpuJob], *, work: str, broken: tuple[str, ...]) -> Iterator[str]:
    yield f"# {plan.file}"
    for label, text in _job_rows(plan, work=work, broken=broken):
        yield f"{label:<12}{text}"
    yield from command_blocks(plan, TITLES[plan.job.work], argv=plan.job.argv, env=plan.job.env)
    yield from evidence_blocks(plan)


def _job_rows(plan: JobPlan[CpuJob], *, work: str, broken: tuple[str, ...]) -> Iterator[tuple[str, str]]:
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
    yield from (("incomplete", f"{folder} (kept)") for folder in broken)
