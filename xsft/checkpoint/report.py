"""What `xsft checkpoint inspect` tells of a checkpoint, made of what its small files say. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from xsft.catalog.arrays import required
from xsft.checkpoint.compare import kind, layouts, models, weights
from xsft.checkpoint.files import certain
from xsft.facts import CheckpointFacts, SavedArray
from xsft.naming import ModeName

Status = Literal["complete", "torn", "missing", "not-a-checkpoint", "unreadable"]
LayoutName = Literal["items", "model_params", "optimizer_state", "adapters", "hugging_face"]


class Writer(Struct, frozen=True, kw_only=True):
    """The training or the conversion that saved it, by xsft's record beside its output."""

    run_name: str
    spec_digest: str
    """Of the workload, or of all that decides what a conversion writes."""
    steps: int | None = None
    """Asked for; None for a conversion."""
    source: str | None = None
    """Weights that were converted, with their commit where the hub told it; None for a training."""


class Report(Struct, frozen=True, kw_only=True):
    path: str
    status: Status
    detail: str
    """Why it is torn or could not be read, or what lies there instead."""
    layout: LayoutName | None
    step: int | None
    use_zarr3: bool | None
    use_ocdbt: bool | None
    scan_layers: bool | None
    param_scan_axis: int | None
    dtypes: tuple[str, ...] | None
    dtypes_detail: str
    parameters: int | None
    """Of the weights; None where the files do not tell every shape."""
    arrays: int
    models: tuple[str, ...]
    """Of the catalogue; several where their arrays do not differ."""
    modes: tuple[ModeName, ...]
    """That can read it."""
    bytes: int | None
    """Of all its files; None where there are too many to count."""
    bytes_read: int
    written_by: Writer | None


def report(found: CheckpointFacts, *, size: int | None, bytes_read: int, written_by: Writer | None) -> Report:
    held = weights(found.arrays)
    layout = _layout(found)
    fitting = models(held, layouts(found, axis=1)) if kind(found.arrays) == "weights" else ()
    return Report(
        path=found.path,
        status=_status(found),
        detail=found.detail,
        layout=layout,
        step=_step(found.path),
        use_zarr3=found.use_zarr3,
        use_ocdbt=found.use_ocdbt,
        scan_layers=found.scan_layers,
        param_scan_axis=found.param_scan_axis,
        dtypes=found.dtypes or None,
        dtypes_detail=found.dtypes_detail,
        parameters=_parameters(found, held, fitting),
        arrays=len(found.arrays),
        models=fitting,
        modes=_modes(found),
        bytes=size,
        bytes_read=bytes_read,
        written_by=written_by,
    )


def _status(found: CheckpointFacts) -> Status:
    """A list of arrays that is too long to be read proves nothing of them."""
    if found.status == "read":
        return "complete" if found.arrays else "unreadable"
    return found.status


def _layout(found: CheckpointFacts) -> LayoutName | None:
    """By its arrays, which a folder of any name may hold; the folder tells who wrote weights."""
    if found.is_hugging_face:
        return "hugging_face"
    folder = found.path.rstrip("/").rpartition("/")[2]
    match kind(found.arrays):
        case "adapters":
            return "adapters"
        case "optimizer":
            return "optimizer_state"
        case "weights" | "other":
            return "items" if folder == "items" else "model_params" if folder == "model_params" else None


def _step(path: str) -> int | None:
    """The folder above: conversions save as step 0."""
    name = path.rstrip("/").rpartition("/")[0].rpartition("/")[2].partition(".")[0]
    return int(name) if name.isascii() and name.isdecimal() else None


def _modes(found: CheckpointFacts) -> tuple[ModeName, ...]:
    """Pathways' workers read zarr v2 without OCDBT only; unknown formats are promised to nobody. A store with OCDBT
    that does not tell its zarr is read all the same (orbax-checkpoint@0.12.8: no `use_zarr3` is version 2)."""
    if _status(found) != "complete" or (found.use_zarr3 is None and not found.use_ocdbt):
        return ()
    return ("mcjax", "pathways") if found.use_ocdbt is False and found.use_zarr3 is False else ("mcjax",)


def _parameters(found: CheckpointFacts, held: Mapping[str, SavedArray], fitting: tuple[str, ...]) -> int | None:
    """By the shapes in the files; where devices held copies these are shares, and the model's own shapes tell."""
    if not held:
        return None
    shapes = [certain(array) for array in held.values()]
    if None not in shapes:
        return sum(math.prod(shape) for shape in shapes if shape is not None)
    wanted = [required(name, {}, layout=layout) for name in fitting[:1] for layout in layouts(found, axis=1)]
    sums = {sum(math.prod(shape) for shape in one.arrays.values()) for one in wanted if one is not None}
    return sums.pop() if len(sums) == 1 else None
