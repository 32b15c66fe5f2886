"""Reads what a checkpoint's files contain about its arrays: names, shapes and dtypes, never a value.

The `.zarray` or `zarr.json` of each array lies beside it, or in an OCDBT store, which TensorStore reads. Orbax puts
every value up to 1,024 bytes into the store's index, and arrays into other files (orbax-checkpoint@0.12.8
_src/serialization/tensorstore_utils.py `max_inline_value_bytes`). TensorStore gets a store in memory that lacks all
files; it names each range that it misses, and only these are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from xsft.machine.parallel import all_answers
from xsft.machine.storage import Storage
from xsft.spec.facts import SavedArray
from xsft.weights.checkpoint_files import (
    ARRAY_METADATA,
    OCDBT_MANIFEST,
    OWN,
    SHARDING,
    ArrayMetadata,
    own_metadata,
    parse_json,
    saved_arrays,
)

if TYPE_CHECKING:
    import tensorstore

MAX_METADATA = 16 * 1024 * 1024
"""Bytes. `_METADATA` takes some 600 bytes for each array: 1.2 MB for 2,000 of them (deepseek3 unscanned)."""
MAX_ARRAY_FILE = 64 * 1024
MAX_NODES = 64
"""Maximum ranges read of an OCDBT store's index; Orbax writes one node, until it would have 100 MB."""
AT_ONCE = 8
"""Files of arrays that are read side by side."""

MAX_END = 16 * 1024 * 1024
"""Bytes; nodes beyond are not read. Orbax writes its index into a file of its own."""
_RANGE = re.compile(r'Error reading Byte range \[(?P<start>\d+), (?P<end>\d+)\) of "(?P<file>[^"]+)"')
"""source: tensorstore@0.1.86, seen"""

ReadRange = Callable[[str, int, int], bytes | None]
"""Returns the bytes of a file of the store: its name, the first byte and their number; None if there is no such file.
"""


class ReadArrays(Struct, frozen=True, kw_only=True):
    """The arrays of a checkpoint."""

    arrays: tuple[SavedArray, ...]
    detail: str = ""
    """Why shapes and dtypes do not come from the arrays' own files alone, or the number of arrays that were read."""
    lost: str | None = None
    """The arrays that the store's index lists and the folder lacks."""


class _MetadataOfArrays(Struct, frozen=True, kw_only=True):
    """The contents of the arrays' own files, by dotted name."""

    found: Mapping[str, ArrayMetadata]
    detail: str = ""
    lost: str | None = None


def read_arrays(
    path: str,
    metadata: Mapping[str, Any],
    storage: Storage,
    *,
    with_ocdbt: bool | None,
    sampled: int,
    max_nodes: int = MAX_NODES,
) -> ReadArrays:
    """Return the arrays. With OCDBT one index has every shape and dtype; without it each array has a file, and
    `sampled` are read. `max_nodes`: ranges read of an OCDBT store's index. Raises Unreachable if a file may not be
    read.
    """
    arrays = saved_arrays(metadata, sharding={}, array_metadata={})
    if not arrays:
        return ReadArrays(arrays=())
    if with_ocdbt:
        owns = _in_store(path, storage, max_nodes=max_nodes)
        missing = owns.lost or _describe_absent(arrays, owns)
    else:
        owns = _read_own_files(path, arrays, storage, sampled=sampled)
        missing = None
    # Two more files, which are read only where an array's own file does not tell its shape.
    if any(_own_of_array(owns, array).shape is None for array in arrays):
        arrays = _with_pieces(path, metadata, storage)
    owned = ((array, _own_of_array(owns, array)) for array in arrays)
    described = tuple(replace(array, shape=metadata.shape, dtype=metadata.dtype) for array, metadata in owned)
    return ReadArrays(arrays=described, detail=owns.detail, lost=missing)


def _own_of_array(owns: _MetadataOfArrays, array: SavedArray) -> ArrayMetadata:
    return owns.found.get(".".join(array.path), ArrayMetadata())


def _describe_absent(arrays: Sequence[SavedArray], owns: _MetadataOfArrays) -> str | None:
    names = [name for array in arrays if (name := ".".join(array.path)) not in owns.found]
    if not owns.found or not names:
        return None
    return f"{len(names)} of {len(arrays)} arrays are missing in its store, e.g. {names[0]}"


def _with_pieces(path: str, metadata: Mapping[str, Any], storage: Storage) -> tuple[SavedArray, ...]:
    """Return the arrays with their shapes from pieces and shardings. An older Orbax wrote the pieces into a separate
    file, or not at all.
    """
    sharding = json_at(f"{path}/{SHARDING}", storage)
    arrays = saved_arrays(metadata, sharding=sharding, array_metadata={})
    if any(array.piece is not None for array in arrays):
        return arrays
    return saved_arrays(metadata, sharding=sharding, array_metadata=json_at(f"{path}/{ARRAY_METADATA}", storage))


def json_at(path: str, storage: Storage) -> dict[str, Any]:
    """Return the JSON object in the file; empty if there is none."""
    content = storage.read(path, limit=MAX_METADATA)
    return (parse_json(content) if content else None) or {}


def _read_own_files(path: str, arrays: Sequence[SavedArray], storage: Storage, *, sampled: int) -> _MetadataOfArrays:
    """Read the own files of some arrays, spread over the whole list."""
    chosen = arrays[:: max(1, -(-len(arrays) // max(1, sampled)))]
    names = [".".join(array.path) for array in chosen]
    looks = [partial(_own_file, f"{path}/{name}", storage) for name in names]
    contents = dict(zip(names, all_answers(looks, threads=AT_ONCE), strict=True))
    metadata_files = {name: own_metadata(content) for name, content in contents.items() if content is not None}
    if not any(metadata.dtype for metadata in metadata_files.values()):
        return _MetadataOfArrays(found={}, detail="no .zarray or zarr.json was found beside the arrays")
    detail = f"of {len(chosen)} of {len(arrays)} arrays" if len(chosen) < len(arrays) else ""
    return _MetadataOfArrays(found=metadata_files, detail=detail)


def _own_file(folder: str, storage: Storage) -> bytes | None:
    contents = (storage.read(f"{folder}/{file}", limit=MAX_ARRAY_FILE) for file in OWN)
    return next((content for content in contents if content is not None), None)


def _in_store(path: str, storage: Storage, *, max_nodes: int) -> _MetadataOfArrays:
    manifest = storage.read(f"{path}/{OCDBT_MANIFEST}", limit=MAX_METADATA)
    if manifest is None:
        return _MetadataOfArrays(found={}, detail=f"{OCDBT_MANIFEST} is missing")

    def read(file: str, start: int, length: int) -> bytes | None:
        return storage.read(f"{path}/{file}", limit=length, start=start)

    try:
        values = small_values(manifest, OWN, read=read, max_nodes=max_nodes)
    except DamagedOcdbt as failed:
        return _MetadataOfArrays(found={}, detail=str(failed), lost=str(failed))
    except UnreadableOcdbt as failed:
        return _MetadataOfArrays(found={}, detail=str(failed))
    return _MetadataOfArrays(found={key.rpartition("/")[0]: own_metadata(content) for key, content in values.items()})


class UnreadableOcdbt(ValueError):
    """The store is of an unsupported version, or its index exceeds the limits."""


class DamagedOcdbt(ValueError):
    """The store is damaged: a file of its index is missing, truncated or changed."""


def small_values(manifest: bytes, names: tuple[str, ...], *, read: ReadRange, max_nodes: int) -> dict[str, bytes]:
    """Return the values whose keys end with one of the names, by key. `max_nodes`: ranges that are read at most. Raises
    UnreadableOcdbt and DamagedOcdbt."""
    import tensorstore  # 68 MB, which a checkpoint without OCDBT does not need

    context = tensorstore.Context()
    files = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    files.write(OCDBT_MANIFEST, manifest).result()
    store = {"driver": "ocdbt", "base": {"driver": "memory"}}
    contents: dict[str, bytearray] = {}
    ranges: set[str] = set()
    while True:
        try:
            return _small_values(tensorstore.KvStore.open(store, context=context).result(), names)
        except (ValueError, NotImplementedError) as failed:
            missing = _RANGE.search(str(failed))
            if missing is None or missing[0] in ranges:
                raise _reason(str(failed)) from None
        ranges.add(missing[0])
        file, start, end = missing["file"], int(missing["start"]), int(missing["end"])
        if end > MAX_END or len(ranges) > max_nodes:
            raise UnreadableOcdbt("its index is larger than the limit")
        content = read(file, start, end - start)
        if content is None:
            raise DamagedOcdbt(f"{file}, listed in {OCDBT_MANIFEST}, is missing")
        # The store in memory holds whole files: what was not read yet is zeros.
        content_so_far = contents.setdefault(file, bytearray())
        content_so_far.extend(bytes(max(0, end - len(content_so_far))))
        content_so_far[start : start + len(content)] = content
        files.write(file, bytes(content_so_far)).result()


def _small_values(store: tensorstore.KvStore, names: tuple[str, ...]) -> dict[str, bytes]:
    keys = [key for key in store.list().result() if key.decode(errors="replace").endswith(names)]
    answers = [store.read(key) for key in keys]
    return {key.decode(errors="replace"): answer.result().value for key, answer in zip(keys, answers, strict=True)}


def _reason(message: str) -> ValueError:
    """Return what TensorStore's message means. A full disk or a power failure leaves zeros, no other magic number."""
    is_other_format = "Expected to start with" in message and "received: 0x00000000" not in message
    if is_other_format or "supported version" in message:
        return UnreadableOcdbt(f"{OCDBT_MANIFEST} or the index behind it is not supported: {message}")
    return DamagedOcdbt(f"{OCDBT_MANIFEST} or the index behind it is damaged: {message}")
