"""Build the report of `xsft checkpoint inspect` from the checkpoint's small files. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from xsft.base.names import MODES, ModeName
from xsft.catalog.arrays import exact_parameters
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.modes import mode_rules
from xsft.weights.checkpoint_compare import kind, layouts, models, weights
from xsft.weights.checkpoint_files import parameters
from xsft.weights.export_record import ExportRecord

CheckpointStatus = Literal["complete", "torn", "missing", "not-a-checkpoint", "unreadable"]
LayoutName = Literal["items", "model_params", "optimizer_state", "adapters", "hugging_face"]


class Writer(Struct, frozen=True, kw_only=True):
    """The training or conversion that saved the checkpoint, from xsft's record beside its output."""

    run_name: str
    spec_digest: str
    """Digest of the workload, or of the inputs of a conversion."""
    steps: int | None = None
    """Steps requested; None for a conversion."""
    source: str | None = None
    """The converted weights, with their commit if known, or the exported checkpoint; None for a training."""


class CheckpointReport(Struct, frozen=True, kw_only=True):
    """A description of a checkpoint, read from its small files."""

    path: str
    status: CheckpointStatus
    """`torn`: a save that did not end."""
    detail: str
    """Reason why it is torn or could not be read; or the content of the path, and the path of a checkpoint near it."""
    layout: LayoutName | None
    step: int | None
    """Step of the checkpoint; a conversion saves as step 0."""
    use_zarr3: bool | None
    use_ocdbt: bool | None
    scan_layers: bool | None
    param_scan_axis: int | None
    """Axis along which layers are stacked; None if they are not stacked, or the shapes do not show the axis."""
    dtypes: tuple[str, ...] | None
    """Data types by NumPy's names; None if unknown."""
    dtypes_detail: str
    """Why they are unknown, or the number of arrays that were read."""
    parameters: int | None
    """Number of parameters; None if the files do not give every shape."""
    arrays: int
    models: tuple[str, ...]
    """Models of the catalogue with these arrays; several if their arrays are equal."""
    modes: tuple[ModeName, ...]
    """Modes that can read it."""
    bytes: int | None
    """Total size of its files in bytes; None if there are too many to count."""
    bytes_read: int
    """Bytes read by this command; no array's data is among them."""
    written_by: Writer | None


def report_of(
    checkpoint: CheckpointFacts, *, size: int | None, bytes_read: int, written_by: Writer | None
) -> CheckpointReport:
    saved = weights(checkpoint.arrays)
    layout = _layout(checkpoint)
    fitting = models(saved, layouts(checkpoint, axis=1)) if kind(checkpoint.arrays) == "weights" else ()
    return CheckpointReport(
        path=checkpoint.path,
        status=_report_status(checkpoint),
        detail=checkpoint.detail,
        layout=layout,
        step=_step_of_path(checkpoint.path),
        use_zarr3=checkpoint.use_zarr3,
        use_ocdbt=checkpoint.use_ocdbt,
        scan_layers=checkpoint.scan_layers,
        param_scan_axis=checkpoint.param_scan_axis,
        dtypes=checkpoint.dtypes or None,
        dtypes_detail=checkpoint.dtypes_detail,
        parameters=_parameters(saved, fitting),
        arrays=len(checkpoint.arrays),
        models=fitting,
        modes=_modes(checkpoint),
        bytes=size,
        bytes_read=bytes_read,
        written_by=written_by,
    )


def export_report(
    checkpoint: CheckpointFacts, record: ExportRecord, *, size: int | None, bytes_read: int
) -> CheckpointReport:
    """Return the report on a Hugging Face model that xsft exported."""
    inputs = record.inputs
    status: CheckpointStatus = "complete"
    if record.outcome != "completed":
        status = "torn"
    training, step, form = (inputs.get(name, "?") for name in ("training", "step", "form"))
    detail = f"an export of {training}, step {step}: {form} weights"
    return CheckpointReport(
        path=checkpoint.path,
        status=status,
        detail=detail if status == "complete" else f"{detail}, which did not complete",
        layout="hugging_face",
        step=inputs.get("step"),
        use_zarr3=None,
        use_ocdbt=None,
        scan_layers=None,
        param_scan_axis=None,
        dtypes=(str(inputs["dtype"]),) if "dtype" in inputs else None,
        dtypes_detail="",
        parameters=None,
        arrays=0,
        models=tuple(filter(None, (inputs.get("model"),))),
        modes=(),
        bytes=size,
        bytes_read=bytes_read,
        written_by=Writer(run_name=record.run_name, spec_digest=record.digest, source=inputs.get("weights")),
    )


def _report_status(checkpoint: CheckpointFacts) -> CheckpointStatus:
    """Return the status; a list of arrays that is too long to read does not make a checkpoint incomplete."""
    if checkpoint.status == "read":
        return "complete" if checkpoint.arrays else "unreadable"
    return checkpoint.status


def _layout(checkpoint: CheckpointFacts) -> LayoutName | None:
    """Return the layout by its arrays, because the folder may have any name; for weights the folder tells the
    writer.
    """
    if checkpoint.is_hugging_face:
        return "hugging_face"
    folder = checkpoint.path.rstrip("/").rpartition("/")[2]
    match kind(checkpoint.arrays):
        case "adapters":
            return "adapters"
        case "optimizer":
            return "optimizer_state"
        case "weights" | "other":
            return "items" if folder == "items" else "model_params" if folder == "model_params" else None


def _step_of_path(path: str) -> int | None:
    """Return the step from the folder above; conversions save as step 0."""
    name = path.rstrip("/").rpartition("/")[0].rpartition("/")[2].partition(".")[0]
    return int(name) if name.isascii() and name.isdecimal() else None


def _modes(checkpoint: CheckpointFacts) -> tuple[ModeName, ...]:
    """Return the modes that can read it. Pathways' workers read only zarr v2 without OCDBT; an unknown format gives no
    mode. A store with OCDBT that does not state its zarr version can be read (orbax-checkpoint@0.12.8: no
    `use_zarr3` is version 2).
    """
    if _report_status(checkpoint) != "complete" or (checkpoint.use_zarr3 is None and not checkpoint.use_ocdbt):
        return ()
    is_plain = checkpoint.use_ocdbt is False and checkpoint.use_zarr3 is False
    return tuple(mode for mode in MODES if is_plain or mode_rules(mode).reads_ocdbt)


def _parameters(saved: Mapping[str, SavedArray], fitting: tuple[str, ...]) -> int | None:
    """Return the number of parameters from the files' shapes; where devices held copies these are shares, so the
    model's own shapes are used.
    """
    by_files = parameters(saved.values())
    return exact_parameters(fitting[0], {}) if by_files is None and fitting else by_files
