"""Documents about checkpoints."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from xsft.runs.rows import Row
from xsft.spec.conversion_inputs import ConversionSource
from xsft.stages.claims import ConversionClaim
from xsft.verbs.document import Document, ProblemFields
from xsft.weights.checkpoint_report import CheckpointReport
from xsft.weights.conversion_estimate import ConversionEstimate
from xsft.weights.export_verification import Verification


class CpuJobDocument(Document, frozen=True, kw_only=True):
    """A job on a cluster: one pod on a CPU node, or a slice on which one host works."""

    jobset: str | None
    uid: str | None
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
    xpk_argv: list[str] | None
    by_hand: list[str]
    """Parts of the JobSet that the xpk command alone would not create."""
    manifest: dict[str, Any] | None
    """The JobSet, for a dry run."""


class ConversionDocument(Document, frozen=True, kw_only=True):
    """`xsft checkpoint convert FILE --json`."""

    schema_: Literal["xsft.checkpoint-convert/1"] = field(name="schema")
    run_name: str
    """Run name of the conversion: `<training>-convert`."""
    training: str
    action: Literal["planned", "created", "attempt", "adopted", "finished"]
    """`finished`: the checkpoint existed. `created`, `attempt`: converted now, by the first or a later attempt.
    `adopted`: a live job converts it. `planned`: a dry run; nothing was sent."""
    why: str
    digest: str
    """Digest of all inputs, 64 hex digits; the folder's name contains 12 of them."""
    checkpoint: str
    """load_parameters_path of the training."""
    not_whole: list[str]
    """Folders of interrupted conversions; they are kept."""
    source: ConversionSource
    model: str
    argv: list[str]
    """Arguments of MaxText's to_maxtext; empty if the checkpoint existed and has no record."""
    estimate: ConversionEstimate | None
    """Estimated sizes; null if the model's size is unknown."""
    record: str | None
    """Path of the record; null if the checkpoint existed already."""
    log: str | None
    job: CpuJobDocument | None
    """The job on a cluster; null on this machine, and if the checkpoint existed."""
    owner: ConversionClaim | None = None
    """On a cluster: the run that owns the conversion; null before anything was sent, and if the checkpoint existed."""
    problems: list[ProblemFields]
    run: Row | None = None
    """With --wait: the run, as `xsft status` shows it."""
    exit_status: int | None = None
    """Exit status of the wait, with --wait."""


class ExportDocument(Document, frozen=True, kw_only=True):
    """`xsft checkpoint export RUN|FILE --json`."""

    schema_: Literal["xsft.checkpoint-export/1"] = field(name="schema")
    run_name: str
    """Run name of the export: `<training>-export`."""
    training: str
    action: Literal["planned", "created", "attempt", "adopted", "finished"]
    """`finished`: the export existed. `created`, `attempt`: exported now, by the first or a later attempt. `adopted`: a
    live job exports it. `planned`: a dry run; nothing was sent."""
    why: str
    digest: str
    """Digest of all inputs, 64 hex digits; the folder's name contains 12 of them."""
    step: int
    form: Literal["full", "adapters", "merged"]
    dtype: Literal["bfloat16", "float32"]
    folder: str
    """The Hugging Face folder: on this machine, gs://…, or hf://owner/name."""
    not_whole: list[str]
    """Folders of attempts that did not complete; they are kept."""
    argv: list[str]
    """Arguments of MaxText's to_huggingface."""
    verification: Verification | None
    """What was compared; null before a job on a cluster has ended."""
    record: str | None
    """Path of the run's record; null if the export existed already."""
    log: str | None
    job: CpuJobDocument | None = None
    """The job on a cluster; null on this machine, and if the export existed."""
    problems: list[ProblemFields]
    run: Row | None = None
    """With --wait: the run, as `xsft status` shows it."""
    exit_status: int | None = None
    """Exit status of the wait, with --wait."""


class CheckpointDocument(Document, CheckpointReport, frozen=True, kw_only=True):
    """`xsft checkpoint inspect PATH --json`."""

    schema_: Literal["xsft.checkpoint/1"] = field(name="schema")
    action: Literal["inspect"]
