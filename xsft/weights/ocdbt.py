"""Reads the small values of an OCDBT store by TensorStore: the `.zarray` or `zarr.json` of each array.

Orbax puts every value up to 1,024 bytes into the index, and arrays into other files (orbax-checkpoint@0.12.8
_src/serialization/tensorstore_utils.py `max_inline_value_bytes`). TensorStore gets a store in memory that lacks all
files; it names each range that it misses, and only these are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import tensorstore

MANIFEST = "manifest.ocdbt"
MAX_END = 16 * 1024 * 1024
"""Bytes; nodes beyond are not read. Orbax writes its index into a file of its own."""
_RANGE = re.compile(r'Error reading Byte range \[(?P<start>\d+), (?P<end>\d+)\) of "(?P<file>[^"]+)"')
"""source: tensorstore@0.1.86, seen"""

ReadRange = Callable[[str, int, int], bytes | None]
"""Returns the bytes of a file of the store: its name, the first byte and their number; None if there is no such file.
"""


class UnreadableOcdbt(ValueError):
    """The store is of an unsupported version, or its index exceeds the limits."""


class DamagedOcdbt(ValueError):
    """The store is damaged: a file of its index is missing, truncated or changed."""


def small_values(manifest: bytes, names: tuple[str, ...], *, read: ReadRange, max_nodes: int) -> dict[str, bytes]:
    """Return the values whose keys end with one of the names, by key. `max_nodes`: ranges that are read at most. Raises
    UnreadableOcdbt and DamagedOcdbt."""
    context = tensorstore.Context()
    files = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    files.write(MANIFEST, manifest).result()
    store = {"driver": "ocdbt", "base": {"driver": "memory"}}
    contents: dict[str, bytearray] = {}
    ranges: set[str] = set()
    while True:
        try:
            return _values(tensorstore.KvStore.open(store, context=context).result(), names)
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
            raise DamagedOcdbt(f"{file}, listed in {MANIFEST}, is missing")
        content_so_far = contents.setdefault(file, bytearray())
        content_so_far.extend(bytes(max(0, end - len(content_so_far))))
        content_so_far[start : start + len(content)] = content
        files.write(file, bytes(content_so_far)).result()


def _values(store: tensorstore.KvStore, names: tuple[str, ...]) -> dict[str, bytes]:
    keys = [key for key in store.list().result() if key.decode(errors="replace").endswith(names)]
    answers = [store.read(key) for key in keys]
    return {key.decode(errors="replace"): answer.result().value for key, answer in zip(keys, answers, strict=True)}


def _reason(message: str) -> ValueError:
    """Return what TensorStore's message means. A full disk or a power failure leaves zeros, no other magic number."""
    is_other_format = "Expected to start with" in message and "received: 0x00000000" not in message
    if is_other_format or "supported version" in message:
        return UnreadableOcdbt(f"{MANIFEST} or the index behind it is not supported: {message}")
    return DamagedOcdbt(f"{MANIFEST} or the index behind it is damaged: {message}")
