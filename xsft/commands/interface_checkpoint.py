"""Documents about checkpoints."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem
from xsft.commands.interface_status import Run


class CheckpointWriter(Document):
    """The training or the conversion that saved a checkpoint, by xsft's record beside its output."""

    run_name: str
    spec_digest: str
    """Digest of the workload; of a conversion: over all that decides what it writes."""
    steps: int | None
    """Requested steps; null for a conversion."""
    source: str | None
    """Weights that were converted, `repository` or `repository@commit`; null for a training."""


class ConversionSourceDocument(Document):
    """The Hugging Face weights that are converted."""

    repo: str
    """`owner/name`, or the absolute path of a folder."""
    revision: str | None
    """Branch, tag or commit, as the workload writes it."""
    commit: str | None
    """Commit that the hub resolved it to; null for a folder, and if the hub was not asked."""
    content: str | None
    """sha256 over the files of a folder; null for a repository."""


class ConversionEstimateDocument(Document):
    """Estimated bytes at the peak, from the model's size."""

    memory: int
    output: int
    download: int


class CpuJobDocument(Document):
    """A job on a cluster: one pod on a CPU node, or a slice of which one host works."""

    jobset: str | None
    uid: str | None
    """UID of the JobSet; null for a dry run."""
    namespace: str
    queue: str
    cpus: int | None
    """Requested CPUs; null on a slice, which requests chips alone."""
    memory_bytes: int
    """Estimated memory in bytes; the pod requests it in whole GiB, except on a slice."""
    disk_bytes: int
    machine: str
    """GCE machine type: the smallest of those that xpk names, or that of the slice's hosts."""
    tpu: str | None = None
    """TPU type of the slice, with --on-tpu."""
    chips: int = 0
    """Chips that it takes and does not use, with --on-tpu."""
    xpk_argv: list[str] | None
    by_hand: list[str]
    """Parts of the JobSet that the xpk line alone would lack."""
    manifest: dict[str, Any] | None
    """The JobSet, for a dry run."""


class ConversionOwner(Document):
    """The run that converts some weights into an output, whoever asks for them."""

    run_name: str
    training: str
    """Run for which the conversion was first planned."""
    user: str
    at: str
    """Time of its first planning, UTC."""


class ConversionDocument(Document):
    """`xsft checkpoint convert FILE --json`."""

    schema_: Literal["xsft.checkpoint-convert/1"] = Field(alias="schema")
    run_name: str
    """Run name of the conversion: `<training>-convert`."""
    training: str
    action: Literal["planned", "created", "attempt", "adopted", "finished"]
    """`finished`: the checkpoint existed. `created`, `attempt`: converted now, by the first or a later attempt.
    `adopted`: a live job converts it. `planned`: a dry run; nothing was sent."""
    why: str
    digest: str
    """Digest of all that decides the result, 64 hex digits; its folder's name has 12 of them."""
    checkpoint: str
    """load_parameters_path of the training."""
    not_whole: list[str]
    """Folders of interrupted conversions; they are kept."""
    source: ConversionSourceDocument
    model: str
    argv: list[str]
    """Arguments of MaxText's to_maxtext; empty if the checkpoint existed and has no record."""
    estimate: ConversionEstimateDocument | None
    """Estimated sizes; null if the model's size is unknown."""
    record: str | None
    """Path of the record; null if the checkpoint existed already."""
    log: str | None
    job: CpuJobDocument | None
    """The job on a cluster; null on this machine, and if the checkpoint existed."""
    owner: ConversionOwner | None = None
    """On a cluster: whose conversion it is; null before anything was sent, and if the checkpoint existed."""
    problems: list[Problem]
    run: Run | None = None
    """With --wait: the run, as `xsft status` shows it."""
    exit_status: int | None = None
    """Exit status of the wait, with --wait."""


class LogitsDocument(Document):
    """Logits of the checkpoint in MaxText against those of the export in the engine, both in float32."""

    greatest_difference: float
    greatest_logit: float
    positions: int
    """Token positions compared."""
    same_argmax: int
    """Positions at which both choose the same token."""
    engine: str


class VerificationDocument(Document):
    """What was compared of an export."""

    problems: list[str]
    """Empty for an export that holds what the checkpoint holds."""
    tensors: int
    compared: int
    """Tensors of which every value was compared."""
    sampled: bool
    """Whether only a part was compared, because the model is large."""
    trained: int | None
    """Compared tensors that the training may change; null if the base was not compared."""
    changed: int | None
    """Compared tensors that differ from the base."""
    base: str
    """Why the base was not compared; empty if it was."""
    logits: LogitsDocument | None
    logits_skipped: str
    """Why logits were asked for and not compared."""


class ExportDocument(Document):
    """`xsft checkpoint export RUN|FILE --json`."""

    schema_: Literal["xsft.checkpoint-export/1"] = Field(alias="schema")
    run_name: str
    """Run name of the export: `<training>-export`."""
    training: str
    action: Literal["planned", "created", "attempt", "adopted", "finished"]
    """`finished`: the export existed. `created`, `attempt`: exported now, by the first or a later attempt. `adopted`: a
    live job exports it. `planned`: a dry run; nothing was sent."""
    why: str
    digest: str
    """Digest of all that decides the result, 64 hex digits; its folder's name has 12 of them."""
    step: int
    form: Literal["full", "adapters", "merged"]
    dtype: Literal["bfloat16", "float32"]
    folder: str
    """The Hugging Face folder: on this machine, gs://…, or hf://owner/name."""
    not_whole: list[str]
    """Folders of attempts that did not complete; they are kept."""
    argv: list[str]
    """Arguments of MaxText's to_huggingface."""
    verification: VerificationDocument | None
    """What was compared; null before a job on a cluster has ended."""
    record: str | None
    """Path of the run's record; null if the export existed already."""
    log: str | None
    job: CpuJobDocument | None = None
    """The job on a cluster; null on this machine, and if the export existed."""
    problems: list[Problem]
    run: Run | None = None
    """With --wait: the run, as `xsft status` shows it."""
    exit_status: int | None = None
    """Exit status of the wait, with --wait."""


class CheckpointDocument(Document):
    """`xsft checkpoint inspect PATH --json`."""

    schema_: Literal["xsft.checkpoint/1"] = Field(alias="schema")
    action: Literal["inspect"]
    path: str
    status: Literal["complete", "torn", "missing", "not-a-checkpoint", "unreadable"]
    """`torn`: a save that did not end."""
    detail: str
    """Why it is torn or could not be read; or what the path holds instead, and where a checkpoint is."""
    layout: Literal["items", "model_params", "optimizer_state", "adapters", "hugging_face"] | None
    step: int | None
    """Step of the checkpoint; a conversion saves as step 0."""
    use_zarr3: bool | None
    use_ocdbt: bool | None
    scan_layers: bool | None
    param_scan_axis: int | None
    """Axis along which layers are stacked; null if they are not stacked, or the shapes do not show the axis."""
    dtypes: list[str] | None
    """Data types by NumPy's names; null if unknown."""
    dtypes_detail: str
    """Why they are unknown, or of how many arrays they were read."""
    parameters: int | None
    arrays: int
    models: list[str]
    """Models of the catalogue whose arrays have these names and shapes."""
    modes: list[Literal["mcjax", "pathways"]]
    """Modes that can read it."""
    bytes: int | None
    """Bytes of all its files; null if there are too many files to add up."""
    bytes_read: int
    """Bytes read by this command; no array's data is among them."""
    written_by: CheckpointWriter | None
