"""Compare the arrays of a checkpoint with those that a model reads. Pure.

source: maxtext@0.2.5 utils/model_creation_utils.py from_pretrained: it loads arrays with the right name, pads or
repeats those of another size, and drops the rest; orbax-checkpoint@0.12.8 _src/serialization/replica_slices.py
(shares).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal

from msgspec import Struct

from xsft.catalog.arrays import EMBEDDING, ArrayLayout, RequiredArrays, required
from xsft.catalog.layers import ArrayShape
from xsft.catalog.models import names
from xsft.spec.facts import CheckpointFacts, SavedArray

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
        if name in saved and not _can_load(saved[name], shape)
    )
    missing = tuple(
        name for name in required_arrays.arrays if name not in saved and (required_arrays.complete or name == EMBEDDING)
    )
    extra = (
        tuple(name for name in saved if name not in required_arrays.arrays and _is_weight(name))
        if required_arrays.complete
        else ()
    )
    if not (resized or missing or extra):
        return None
    return ArrayMismatch(resized=resized, missing=missing, extra=extra, of=len(required_arrays.arrays))


def _can_load(array: SavedArray, shape: ArrayShape) -> bool:
    """Return whether MaxText loads the array: it transposes a matrix of the reverse shape; a router's bias was
    transposed until 0.2.4.
    """
    return may_be(array, shape) or (len(shape) == 2 and may_be(array, shape[::-1]))


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
    (held, wrote), *others = [(size, part) for size, part in zip(shard, piece, strict=True) if size != part]
    return not others and held % wrote == 0 and copies % (held // wrote) == 0


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


def _is_weight(name: str) -> bool:
    return name.rpartition(".")[2] in _LEAVES


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
