"""The report of `xsft checkpoint inspect`, from the checkpoint's small files and the arrays that a model reads. Pure.

source: maxtext@0.2.5 utils/model_creation_utils.py from_pretrained: it loads arrays with the right name, pads or
repeats those of another size, and drops the rest; orbax-checkpoint@0.12.8 _src/serialization/replica_slices.py
(shares).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal

from msgspec import Struct

from xsft.base.names import MODES, ModeName
from xsft.catalog.arrays import EMBEDDING, ArrayLayout, RequiredArrays, exact_parameters, required
from xsft.catalog.layers import ArrayShape
from xsft.catalog.models import names
from xsft.spec.facts import CheckpointFacts, SavedArray
from xsft.spec.modes import mode_rules
from xsft.weights.checkpoint_files import parameters
from xsft.weights.export_record import ExportRecord

CheckpointStatus = Literal["complete", "torn", "missing", "not-a-checkpoint", "unreadable"]
LayoutName = Literal["items", "model_params", "optimizer_state", "adapters", "hugging_face"]
ROOTS = ("decoder", "token_embedder")
OPTIMIZER_ROOT = "opt_state"
"""Name of the optimizer's state in a checkpoint. source: flax@0.12.8 nnx.Optimizer, whose state google-tunix@0.1.7
saves as `optimizer_state`.
"""
NUMBERS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""Dtypes whose values are the weights themselves: MaxText casts them to weight_dtype while it reads. It casts every
other dtype too, but without the scales that integers and blocks of FP8 need. Run on 0.2.5: a model as int8 loads, with
weights of 128.
"""
_LEAVES = frozenset({"kernel", "scale", "bias", "embedding", "wi_0", "wi_1", "wo"})
"""Last parts of a weight's name; arrays with other names may be state that MaxText drops."""


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
    count = parameters(saved.values())
    if count is None and fitting:  # devices held copies, so that the files give shares: the model's own shapes count
        count = exact_parameters(fitting[0], {})
    # The folder above is the step; conversions save as step 0.
    folder = checkpoint.path.rstrip("/").rpartition("/")[0].rpartition("/")[2].partition(".")[0]
    return CheckpointReport(
        path=checkpoint.path,
        status=_report_status(checkpoint),
        detail=checkpoint.detail,
        layout=layout,
        step=int(folder) if folder.isascii() and folder.isdecimal() else None,
        use_zarr3=checkpoint.use_zarr3,
        use_ocdbt=checkpoint.use_ocdbt,
        scan_layers=checkpoint.scan_layers,
        param_scan_axis=checkpoint.param_scan_axis,
        dtypes=checkpoint.dtypes or None,
        dtypes_detail=checkpoint.dtypes_detail,
        parameters=count,
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
    training, step, form = (inputs.get(name, "?") for name in ("training", "step", "form"))
    detail = f"an export of {training}, step {step}: {form} weights"
    if record.outcome != "completed":
        status = "torn"
        detail = f"{detail}, which did not complete"
    return CheckpointReport(
        path=checkpoint.path,
        status=status,
        detail=detail,
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
            if folder == "items":
                return "items"
            return "model_params" if folder == "model_params" else None


def _modes(checkpoint: CheckpointFacts) -> tuple[ModeName, ...]:
    """Return the modes that can read it. Pathways' workers read only zarr v2 without OCDBT; an unknown format gives no
    mode. A store with OCDBT that does not state its zarr version can be read (orbax-checkpoint@0.12.8: no
    `use_zarr3` is version 2).
    """
    if _report_status(checkpoint) != "complete" or (checkpoint.use_zarr3 is None and not checkpoint.use_ocdbt):
        return ()
    is_plain = checkpoint.use_ocdbt is False and checkpoint.use_zarr3 is False
    return tuple(mode for mode in MODES if is_plain or mode_rules(mode).reads_ocdbt)


class ResizedArray(Struct, frozen=True, kw_only=True):
    """An array whose shape differs from the model's."""

    name: str
    saved: SavedArray
    wanted: ArrayShape


class ArrayMismatch(Struct, frozen=True, kw_only=True):
    """The differences between a model's arrays and a checkpoint's; names are dotted, as in `RequiredArrays`."""

    resized: tuple[ResizedArray, ...]
    missing: tuple[str, ...]
    """Arrays of the model that the checkpoint lacks."""
    extra: tuple[str, ...]
    """Arrays of the checkpoint that the model lacks."""
    of: int
    """Number of arrays of the model."""


def mismatch(saved: Mapping[str, SavedArray], required_arrays: RequiredArrays) -> ArrayMismatch | None:
    """Return the differences; None if the checkpoint may be the model's."""
    resized = tuple(
        ResizedArray(name=name, saved=saved[name], wanted=shape)
        for name, shape in required_arrays.arrays.items()
        if name in saved
        and not (
            # MaxText transposes a matrix of the reverse shape; a router's bias was transposed until 0.2.4.
            may_be(saved[name], shape) or (len(shape) == 2 and may_be(saved[name], shape[::-1]))
        )
    )
    missing = tuple(name for name in required_arrays.arrays if name not in saved)
    extra = tuple(name for name in saved if name not in required_arrays.arrays and name.rpartition(".")[2] in _LEAVES)
    if not required_arrays.complete:  # of other arrays, only the embedding is certain
        missing = tuple(name for name in missing if name == EMBEDDING)
        extra = ()
    if not (resized or missing or extra):
        return None
    return ArrayMismatch(resized=resized, missing=missing, extra=extra, of=len(required_arrays.arrays))


def may_be(array: SavedArray, shape: ArrayShape) -> bool:
    """Return whether an array of this shape would have been written in such pieces.

    Usually a piece is the array's shape divided by the number of devices per axis. With copies on several devices, each
    may have written its share along one axis; Pathways' handler calls the whole array a piece.
    """
    if array.shape is not None:
        return array.shape == shape
    piece, ways = array.piece, array.ways
    if piece is None or piece == shape:
        return True
    if len(piece) != len(shape) or min(piece) < 1:
        return False
    if ways is None:
        return all(size % part == 0 for size, part in zip(shape, piece, strict=True))
    if any(size % cut for size, cut in zip(shape, ways, strict=True)):
        return False
    shard = tuple(size // cut for size, cut in zip(shape, ways, strict=True))
    return piece == shard or _is_share(piece, shard, copies=array.copies)


def _is_share(piece: ArrayShape, shard: ArrayShape, *, copies: int) -> bool:
    (cut, *others) = [(size, part) for size, part in zip(shard, piece, strict=True) if size != part]
    size, part = cut
    return not others and size % part == 0 and copies % (size // part) == 0


def weights(arrays: Iterable[SavedArray]) -> dict[str, SavedArray]:
    """Return a model's arrays by their names in it, for each way of saving the tree: `params.params.…` by the converter
    (`params.MoEBiasVar.…` for arrays that it does not treat as parameters), `….value` and perhaps `base.…` by
    trainers.
    """
    named = ((_parameter_name(array.path), array) for array in arrays)
    return {name: array for name, array in named if name is not None}


def in_collections(arrays: Iterable[SavedArray]) -> tuple[str, ...]:
    """Return weights that a converter's tree keeps beside `params.params`, e.g. `params.MoEBiasVar.decoder.…`.

    from_pretrained reads every weight from `params.params` if it exists: run on 0.2.5 with deepseek3-tiny, a router's
    bias there loads, and one in a collection fails with `RuntimeError: Array has been deleted`.
    """
    paths = [array.path for array in arrays]
    if not any(path[:2] == ("params", "params") for path in paths):
        return ()
    return tuple(".".join(path) for path in paths if path[:1] == ("params",) != path[1:2] and _parameter_name(path))


ArrayKind = Literal["weights", "adapters", "optimizer", "other"]


def kind(arrays: Sequence[SavedArray]) -> ArrayKind:
    """Return what a checkpoint contains: weights count even beside other arrays."""
    saved = weights(arrays)
    if saved:
        return "adapters" if all(is_adapter(name) for name in saved) else "weights"
    return "optimizer" if any(array.path[:1] == (OPTIMIZER_ROOT,) for array in arrays) else "other"


def is_adapter(name: str) -> bool:
    """Return whether the name is an adapter's. source: google-tunix@0.1.7 and qwix@0.1.8: `kernel_lora_a`,
    `kernel_lora_b`.
    """
    return name.rpartition(".")[2].endswith(("_lora_a", "_lora_b"))


def _parameter_name(path: Sequence[str]) -> str | None:
    parts = path[:-1] if path and path[-1] == "value" else path
    root = next((i for i, part in enumerate(parts) if part in ROOTS), None)
    if root is None or any(part not in ("params", "base") and not part.endswith("Var") for part in parts[:root]):
        return None
    return ".".join(parts[root:])


def layouts(checkpoint: CheckpointFacts, *, axis: int) -> tuple[ArrayLayout, ...]:
    """Return the possible array layouts; `axis` is the first guess for param_scan_axis if the files do not give it."""
    axes = dict.fromkeys((axis, 0, 1) if checkpoint.param_scan_axis is None else (checkpoint.param_scan_axis,))
    scanned = tuple(ArrayLayout(scan=True, axis=scan_axis) for scan_axis in axes)
    match checkpoint.scan_layers:
        case True:
            return scanned
        case False:
            return (ArrayLayout(scan=False),)
        case None:
            return (*scanned, ArrayLayout(scan=False))


def models(saved: Mapping[str, SavedArray], ways: Sequence[ArrayLayout]) -> tuple[str, ...]:
    """Return every model of the catalogue that has exactly these arrays."""
    return tuple(name for name in names() if any(_is(name, saved, layout) for layout in ways))


def _is(name: str, saved: Mapping[str, SavedArray], layout: ArrayLayout) -> bool:
    arrays_of_model = _of_catalogue(name, layout)
    if arrays_of_model is None or not arrays_of_model.complete or not arrays_of_model.arrays.keys() <= saved.keys():
        return False
    return mismatch(saved, arrays_of_model) is None


@cache
def _of_catalogue(name: str, layout: ArrayLayout) -> RequiredArrays | None:
    return required(name, {}, layout=layout)
