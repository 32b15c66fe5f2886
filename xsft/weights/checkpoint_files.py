"""Parse the small files of an Orbax checkpoint: its format, and its arrays with the shapes they were written in. Pure.

source: orbax-checkpoint@0.12.8 handlers/base_pytree_checkpoint_handler.py (`use_ocdbt`, `use_zarr3` in `_METADATA`),
_src/metadata/array_metadata.py (`write_shape`), _src/metadata/sharding.py (`_sharding`); maxtext@0.2.5
common/checkpointing.py load_checkpoint_metadata. tests/contract/test_checkpoint_formats.py compares it with real
checkpoints.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from xsft.spec.facts import SavedArray

METADATA = "_METADATA"
STEP_METADATA = "_CHECKPOINT_METADATA"
ARRAY_METADATA = "array_metadatas/process_0"
OWN = (".zarray", "zarr.json")
"""Names of an array's metadata file: zarr v2, zarr v3."""
SHARDING = "_sharding"
OCDBT_MANIFEST = "manifest.ocdbt"

STACKS = frozenset({"layers", "dense_layers", "moe_layers", "scanned_blocks"})
"""Names of scanned layers (maxtext@0.2.5 layers/nnx_decoders.py); unscanned ones are numbered, `layers_0`."""
_NUMBERED = re.compile(r"(?:dense_|moe_)?layers_\d+")

MAX_RANK = 32
MAX_SIZE = 2**62
"""Limits of TensorStore on an array's rank and size."""

ArrayName = tuple[str, ...]


def parse_json(content: bytes) -> dict[str, Any] | None:
    """Return the JSON object, or None if it is not one."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def flag(metadata: Mapping[str, Any], name: str) -> bool | None:
    value = metadata.get(name)
    return value if isinstance(value, bool) else None


def recorded_scan(step_metadata: Mapping[str, Any]) -> bool | None:
    """Return `custom_metadata.scan_layers`, which `to_maxtext` writes and MaxText >= 0.2.4 adopts."""
    custom = step_metadata.get("custom_metadata")
    return flag(custom, "scan_layers") if isinstance(custom, dict) else None


def saved_arrays(
    metadata: Mapping[str, Any], *, sharding: Mapping[str, Any], array_metadata: Mapping[str, Any]
) -> tuple[SavedArray, ...]:
    """Return every array of the tree from `_METADATA`, `_sharding` and `array_metadatas/process_0`, without the state
    of random generators.
    """
    pieces = array_shapes(array_metadata)
    cuts = shardings(sharding)
    arrays: list[SavedArray] = []
    for entry in _entries(metadata):
        key = _array_key(entry)
        holder = entry.get("value_metadata")
        # Others are None, empty nodes and strings; Orbax skips those with `skip_deserialize`, which have no value.
        if (
            "rngs" in key
            or not isinstance(holder, dict)
            or holder.get("skip_deserialize")
            or holder.get("value_type", "jax.Array") not in ("jax.Array", "np.ndarray")
        ):
            continue
        piece = _shape(holder)
        if piece is None:  # an older Orbax wrote the shapes into another file, or not at all
            piece = pieces.get(key)
        cut = cuts.get(key)
        if piece is None or cut is None:
            arrays.append(SavedArray(path=key, piece=piece))
        else:
            ways = cut.ways(len(piece))
            arrays.append(SavedArray(path=key, piece=piece, ways=ways, copies=cut.devices // math.prod(ways)))
    return tuple(arrays)


class ArrayMetadata(Struct, frozen=True, kw_only=True):
    """The metadata in an array's own file."""

    shape: tuple[int, ...] | None = None
    dtype: str | None = None


def own_metadata(content: bytes) -> ArrayMetadata:
    """Parse a `.zarray` or `zarr.json`. source: the specifications of zarr v2 (`dtype`) and v3 (`data_type`)."""
    document = parse_json(content) or {}
    dtype = document.get("data_type", document.get("dtype"))
    return ArrayMetadata(
        shape=_sizes(document.get("shape")),
        dtype=_V2.get(dtype.lstrip("<>|="), dtype) if isinstance(dtype, str) else None,
    )


_V2 = {
    **{f"f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"i{size}": f"int{8 * size}" for size in (1, 2, 4, 8)},
    **{f"u{size}": f"uint{8 * size}" for size in (1, 2, 4, 8)},
    "b1": "bool",
}


def array_shapes(array_metadata: Mapping[str, Any]) -> dict[ArrayName, tuple[int, ...]]:
    """Return the shapes in `array_metadatas/process_0`."""
    shapes: dict[ArrayName, tuple[int, ...]] = {}
    holders = array_metadata.get("array_metadatas")
    for holder in holders if isinstance(holders, list) else ():
        match holder:
            case {"array_metadata": {"param_name": name, **described}}:
                if (shape := _shape(described)) is not None:
                    shapes[tuple(str(name).split("."))] = shape
            case _:
                continue
    return shapes


class ArraySharding(Struct, frozen=True, kw_only=True):
    """The sharding of an array over the devices that wrote it."""

    mesh: Mapping[str, int]
    """Mesh axis -> number of devices."""
    spec: tuple[tuple[str, ...], ...]
    """Mesh axes that shard each axis of the array; trailing entries may be missing."""

    @property
    def devices(self) -> int:
        return math.prod(self.mesh.values())

    def ways(self, rank: int) -> tuple[int, ...]:
        """Return the number of shards along each of `rank` axes."""
        cut = tuple(math.prod(self.mesh[axis] for axis in axes) for axes in self.spec)
        return (*cut, *(1,) * (rank - len(cut)))[:rank]


def shardings(document: Mapping[str, Any]) -> dict[ArrayName, ArraySharding]:
    """Parse `_sharding`: base64 of an array's dotted path -> JSON text; entries that cannot be parsed are left out."""
    keyed_cuts = ((_array_path(name), _cut(text)) for name, text in document.items())
    return {path: cut for path, cut in keyed_cuts if path is not None and cut is not None}


def _array_path(name: str) -> ArrayName | None:
    try:
        return tuple(base64.b64decode(name, altchars="-_", validate=True).decode().split("."))
    except (binascii.Error, ValueError):
        return None


def _cut(text: object) -> ArraySharding | None:
    sharding = parse_json(text.encode()) if isinstance(text, str) else None
    match sharding:
        case {"sharding_type": "SingleDeviceSharding"}:
            return ArraySharding(mesh={}, spec=())
        case {
            "sharding_type": "NamedSharding",
            "shape": list(sizes),
            "axis_names": list(names),
            "partition_spec": list(spec),
        }:
            mesh = {name: size for name, size in zip(names, sizes, strict=False) if isinstance(size, int) and size > 0}
            cuts = (entry if isinstance(entry, list) else [entry] for entry in spec)
            axes = tuple(tuple(str(axis) for axis in cut if axis is not None) for cut in cuts)
            return ArraySharding(mesh=mesh, spec=axes) if all(axis in mesh for cut in axes for axis in cut) else None
        case _:
            return None


def infer_scan_layers(keys: Iterable[ArrayName]) -> bool | None:
    """Return whether the decoder's layers are stacked, judged by names alone; None if unknown."""
    decoder = [key for key in keys if "decoder" in key]
    if any(_stack(key) for key in decoder):
        return True
    return False if any(_NUMBERED.fullmatch(part) for key in decoder for part in key) else None


def infer_scan_axis(arrays: Sequence[SavedArray]) -> int | None:
    """Return param_scan_axis: the one axis along which all arrays of a stack have the same size, the number of layers.

    None if axes 0 and 1 both fit, or neither.
    """
    certain_arrays = [array for array in arrays if certain(array)] or list(arrays)
    stacks: dict[str, list[tuple[int, ...]]] = {}
    for array in certain_arrays:
        if (name := _stack(array.path)) and len(shape := whole_shape(array) or array.piece or ()) > 1:
            stacks.setdefault(name, []).append(shape)
    axes = {_common_axis(members) for members in stacks.values()}
    return axes.pop() if len(axes) == 1 else None


def whole_shape(array: SavedArray) -> tuple[int, ...] | None:
    """Return the array's shape; or the shape of one device's share, if its own file was not read and several devices
    held it.
    """
    if array.shape is not None:
        return array.shape
    if array.piece is None or array.ways is None:
        return None
    return tuple(size * ways for size, ways in zip(array.piece, array.ways, strict=True))


def certain(array: SavedArray) -> tuple[int, ...] | None:
    """Return the array's shape; None if the files may give only a share's."""
    return whole_shape(array) if array.shape is not None or array.copies == 1 else None


def parameters(arrays: Iterable[SavedArray]) -> int | None:
    """Return the total number of parameters; None if a shape is unknown: no sharding was read, or devices held
    copies.
    """
    shapes = [certain(array) for array in arrays]
    known_shapes = [shape for shape in shapes if shape is not None]
    return sum(math.prod(shape) for shape in known_shapes) if shapes and len(known_shapes) == len(shapes) else None


def _common_axis(members: Iterable[tuple[int, ...]]) -> int | None:
    sizes = list(members)
    fitting = [axis for axis in (0, 1) if len({shape[axis] for shape in sizes}) == 1]
    return fitting[0] if len(fitting) == 1 else None


def _stack(key: ArrayName) -> str | None:
    """Return the stack of a decoder's array; None if a number below it means a list of single layers.

    A router's bias is excluded: it is stacked in front for every param_scan_axis.
    """
    if "decoder" not in key or ("gate" in key and "bias" in key):
        return None
    inside = key[key.index("decoder") + 1 :]
    pairs = zip(inside, (*inside[1:], ""), strict=True)
    return next((part for part, below in pairs if part in STACKS and not below.isdigit()), None)


def _entries(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    tree = metadata.get("tree_metadata")
    return tuple(entry for entry in tree.values() if isinstance(entry, dict)) if isinstance(tree, dict) else ()


def _array_key(entry: Mapping[str, Any]) -> ArrayName:
    parts = entry.get("key_metadata")
    return tuple(str(p.get("key", "")) for p in parts if isinstance(p, dict)) if isinstance(parts, list) else ()


def _shape(holder: object) -> tuple[int, ...] | None:
    return _sizes(holder.get("write_shape")) if isinstance(holder, dict) else None


def _sizes(shape: object) -> tuple[int, ...] | None:
    """Return the shape, or None if it is invalid. source: tensorstore rank.h kMaxRank, index.h kMaxFiniteIndex."""
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        return None
    sizes = tuple(n for n in shape if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < MAX_SIZE)
    return sizes if len(sizes) == len(shape) else None


TEMPORARY = ".orbax-checkpoint-tmp"
"""Part of the name of a folder that is being written, or whose writer was killed."""
COMMITTED = "commit_success.txt"
"""Marker written last in buckets, where folders cannot be renamed."""


def interrupted(path: str) -> str | None:
    """Return why a checkpoint at this path is incomplete; None if its name does not show it."""
    part = next((part for part in path.split("/") if TEMPORARY in part), None)
    return None if part is None else f"{part} is a temporary folder of an interrupted save"


def uncommitted(step_metadata: Mapping[str, Any]) -> bool:
    """Return whether the step lacks its commit time, which Orbax writes last; False without the file."""
    return "commit_timestamp_nsecs" in step_metadata and not step_metadata["commit_timestamp_nsecs"]


def missing_arrays(arrays: Sequence[SavedArray], names: Collection[str], *, ocdbt: bool | None) -> str | None:
    """Return the first difference between its own list of arrays and the folder, or None. `names`: with OCDBT all
    entries of the folder, else the folders that contain an array's own file.
    """
    if ocdbt:
        return None if OCDBT_MANIFEST in names else f"{OCDBT_MANIFEST} is missing, which is written last"
    folders = {name.rstrip("/") for name in names}
    absent = [name for array in arrays if (name := ".".join(array.path)) not in folders]
    if not absent:
        return None
    return f"{len(absent)} of {len(arrays)} arrays are missing or have no {' or '.join(OWN)}, e.g. {absent[0]}"
