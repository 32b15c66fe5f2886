"""What the small files of an Orbax checkpoint say about its format. Pure: contents in, facts out.

source: orbax-checkpoint@0.12.8 handlers/base_pytree_checkpoint_handler.py (`use_ocdbt`, `use_zarr3` in `_METADATA`),
metadata/array_metadata.py (`write_shape`); maxtext@0.2.5 common/checkpointing.py load_checkpoint_metadata.
tests/contract/test_checkpoint_formats.py compares it with real checkpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

METADATA = "_METADATA"
STEP_METADATA = "_CHECKPOINT_METADATA"
ARRAY_METADATA = "array_metadatas/process_0"
OCDBT_MANIFEST = "manifest.ocdbt"

STACKS = frozenset({"layers", "dense_layers", "moe_layers", "scanned_blocks"})
"""Names of scanned layers (maxtext@0.2.5 layers/nnx_decoders.py); unscanned ones are numbered, `layers_0`."""
_NUMBERED = re.compile(r"(?:dense_|moe_)?layers_\d+")

Key = tuple[str, ...]
Shapes = Mapping[Key, tuple[int, ...]]
"""Parameter -> shape of one written piece: of a sharded array a part of the whole, with the same axes."""


def parse_json(content: bytes) -> dict[str, Any] | None:
    """None where it is not a JSON object."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def flag(metadata: Mapping[str, Any], name: str) -> bool | None:
    value = metadata.get(name)
    return value if isinstance(value, bool) else None


def recorded_scan(step_metadata: Mapping[str, Any]) -> bool | None:
    """`custom_metadata.scan_layers`, which `to_maxtext` writes and MaxText >= 0.2.4 adopts."""
    custom = step_metadata.get("custom_metadata")
    return flag(custom, "scan_layers") if isinstance(custom, dict) else None


def parameters(metadata: Mapping[str, Any]) -> tuple[Key, ...]:
    """Path of every array in the tree, e.g. `("params", "decoder", "layers", "mlp", "wo", "kernel")`."""
    return tuple(_key(entry) for entry in _entries(metadata))


def shapes(metadata: Mapping[str, Any]) -> dict[Key, tuple[int, ...]]:
    """Empty for checkpoints of an older Orbax, whose `_METADATA` holds no shapes."""
    found = ((_key(entry), _shape(entry.get("value_metadata"))) for entry in _entries(metadata))
    return {key: shape for key, shape in found if shape}


def array_shapes(array_metadata: Mapping[str, Any]) -> dict[Key, tuple[int, ...]]:
    """The same from `array_metadatas/process_0`."""
    listed = array_metadata.get("array_metadatas")
    holders = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    items = (item for holder in holders if isinstance(item := holder.get("array_metadata"), dict))
    named = ((str(item.get("param_name", "")), _shape(item)) for item in items)
    return {tuple(name.split(".")): shape for name, shape in named if shape}


def told_scan(keys: Iterable[Key]) -> bool | None:
    """Whether the decoder's layers are stacked, told from the names alone; None where they tell nothing."""
    decoder = [key for key in keys if "decoder" in key]
    if any(_stack(key) for key in decoder):
        return True
    return False if any(_NUMBERED.fullmatch(part) for key in decoder for part in key) else None


def told_axis(shapes: Shapes) -> int | None:
    """param_scan_axis: the one axis along which all arrays of a stack have the same size, the number of layers.

    Holds for sharded arrays too, because layers are not sharded. None where axes 0 and 1 both fit, or neither.
    """
    stacks: dict[str, list[tuple[int, ...]]] = {}
    for key, shape in shapes.items():
        if (name := _stack(key)) and len(shape) > 1:
            stacks.setdefault(name, []).append(shape)
    axes = {_common_axis(members) for members in stacks.values()}
    return axes.pop() if len(axes) == 1 else None


def _common_axis(members: Iterable[tuple[int, ...]]) -> int | None:
    sizes = list(members)
    fitting = [axis for axis in (0, 1) if len({shape[axis] for shape in sizes}) == 1]
    return fitting[0] if len(fitting) == 1 else None


def _stack(key: Key) -> str | None:
    """The stack an array of the decoder is in; a number below it means a list of single layers instead."""
    if "decoder" not in key:
        return None
    inside = key[key.index("decoder") + 1 :]
    pairs = zip(inside, (*inside[1:], ""), strict=True)
    return next((part for part, below in pairs if part in STACKS and not below.isdigit()), None)


def _entries(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    tree = metadata.get("tree_metadata")
    return tuple(entry for entry in tree.values() if isinstance(entry, dict)) if isinstance(tree, dict) else ()


def _key(entry: Mapping[str, Any]) -> Key:
    parts = entry.get("key_metadata")
    return tuple(str(p.get("key", "")) for p in parts if isinstance(p, dict)) if isinstance(parts, list) else ()


def _shape(holder: object) -> tuple[int, ...]:
    shape = holder.get("write_shape") if isinstance(holder, dict) else None
    return tuple(n for n in shape if isinstance(n, int)) if isinstance(shape, list) else ()
