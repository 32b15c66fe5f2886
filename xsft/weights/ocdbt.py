"""Parse the index of an OCDBT store: locations of its nodes, and the small values in them. Pure.

Orbax puts every value up to 1,024 bytes, so the `.zarray` or `zarr.json` of each array, into one root node, and arrays
into other files (orbax-checkpoint@0.12.8 _src/serialization/tensorstore_utils.py `max_inline_value_bytes`). source:
tensorstore kvstore/ocdbt/index.rst "Storage format", and format/config_codec.cc for `manifest_kind`, which the page
leaves out; tests/contract/test_checkpoint_formats.py reads stores that Orbax wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_DECODED = 100_000_000
"""Limit on a decoded node in bytes, the same as Orbax's (`max_decoded_node_bytes`)."""
_MANIFEST, _NODE = 0x0CDB3A2A, 0x0CDB20DE
_CHECKSUM = 4
HEADER = 12
"""Length of the magic number and the length field, in bytes."""


class UnreadableOcdbt(ValueError):
    """The bytes are not a manifest or node of a supported version."""


class DamagedOcdbt(UnreadableOcdbt):
    """The bytes are damaged: truncated or changed, whatever the version."""


class Location(Struct, frozen=True, kw_only=True):
    """The location of a node."""

    file: str
    """Path below the store's folder."""
    offset: int
    length: int
    base: bytes = b""
    """Prefix of the paths of files that the node refers to."""
    prefix: bytes = b""
    """Prefix of the node's keys."""


class Node(Struct, frozen=True, kw_only=True):
    values: Mapping[str, bytes]
    """Values stored in the node itself."""
    children: tuple[Location, ...] = ()


def root(manifest: bytes) -> Location | None:
    """Return the root node of the newest version; None if the store is empty. Raises Undecodable."""
    body = _body(manifest, magic=_MANIFEST)
    body.take(16)  # the store's UUID
    if body.varint():
        raise UnreadableOcdbt("its manifest is spread over several files")
    body.varints(2)  # maximum bytes of an inline value and of a node
    body.take(1)  # arity of the tree of versions
    if body.varint():
        body.take(4)  # level of compression
    files = _files(body, base=b"")
    count = body.varint()
    body.varints(count)  # generations
    body.take(count)  # heights of the roots
    found = _locations(body, files, prefixes=[b""] * count)
    return found[-1] if found and found[-1].length else None


def node(content: bytes, at: Location) -> Node:
    """Parse a node. Raises Undecodable."""
    body = _body(content, magic=_NODE)
    height = body.take(1)[0]
    files = _files(body, base=at.base)
    count = body.varint()
    shared, lengths = [0, *body.varints(count - 1)], body.varints(count)
    common = body.varints(count) if height else ()
    keys = tuple(_join_with_prefixes(shared, [body.take(length) for length in lengths]))
    if height:
        prefixes = [at.prefix + key[:length] for key, length in zip(keys, common, strict=True)]
        return Node(values={}, children=tuple(_locations(body, files, prefixes=prefixes)))
    return Node(values={(at.prefix + key).decode(errors="replace"): value for key, value in _inline(body, keys)})


def _inline(body: _Cursor, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    sizes, kinds = body.varints(len(keys)), body.varints(len(keys))
    body.varints(2 * sum(kind != 0 for kind in kinds))  # locations of values stored elsewhere
    for key, size, kind in zip(keys, sizes, kinds, strict=True):
        if not kind:
            yield key, body.take(size)


def _locations(body: _Cursor, files: Sequence[_File], *, prefixes: Sequence[bytes]) -> list[Location]:
    """Return references to nodes, one for each prefix of their keys."""
    ids, offsets, lengths = (body.varints(len(prefixes)) for _ in range(3))
    if any(number >= len(files) for number in ids):
        raise UnreadableOcdbt("it names a file that is not in its table")
    return [
        Location(file=file.path, base=file.base, offset=offset, length=length, prefix=prefix)
        for file, offset, length, prefix in zip((files[i] for i in ids), offsets, lengths, prefixes, strict=True)
    ]


class _File(Struct, frozen=True, kw_only=True):
    path: str
    base: bytes


def _files(body: _Cursor, *, base: bytes) -> tuple[_File, ...]:
    count = body.varint()
    shared, lengths, bases = [0, *body.varints(count - 1)], body.varints(count), body.varints(count)
    paths = tuple(_join_with_prefixes(shared, [body.take(length) for length in lengths]))
    if any(b"\0" in path for path in (base, *paths)):
        raise DamagedOcdbt("it names a file with a NUL byte")
    return tuple(
        _File(path=(base + path).decode(errors="replace"), base=base + path[:own])
        for path, own in zip(paths, bases, strict=True)
    )


def _join_with_prefixes(shared: Sequence[int], suffixes: Sequence[bytes]) -> Iterator[bytes]:
    """Join strings, each given as a suffix and the length of the prefix it shares with the previous one."""
    last = b""
    for length, suffix in zip(shared, suffixes, strict=False):  # there is one more length than suffixes
        last = last[:length] + suffix
        yield last


def _body(content: bytes, *, magic: int) -> _Cursor:
    """Return the decompressed bytes between the header and the checksum."""
    if not any(content):  # a full disk or a power failure leaves only zeros
        raise DamagedOcdbt("it is empty")
    if int.from_bytes(content[:4], "big") != magic:
        raise UnreadableOcdbt("it has another magic number")
    head = _Cursor(content)
    head.take(4)
    length = int.from_bytes(head.take(8), "little") if len(content) >= HEADER else HEADER
    if length != len(content):
        raise DamagedOcdbt(f"it has {len(content)} bytes of {length}")
    version, compression = head.varints(2)
    if version or compression > 1:
        raise UnreadableOcdbt(f"version {version} with compression {compression} is not supported")
    packed = content[head.at : -_CHECKSUM]
    return _Cursor(_decompress(packed) if compression else packed)


def _decompress(packed: bytes) -> bytes:
    whole = zstd.ZstdDecompressor()
    try:
        found = whole.decompress(packed, max_length=MAX_DECODED)
    except zstd.ZstdError as failed:
        raise DamagedOcdbt(str(failed)) from None
    if not whole.eof:
        raise UnreadableOcdbt(f"it is truncated, or has more than {MAX_DECODED:,} bytes")
    return bytes(found)


class _Cursor:
    """A reader of bytes from the front."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._content):
            raise UnreadableOcdbt("it ends too early")
        found = self._content[self.at : end]
        self.at = end
        return found

    def varint(self) -> int:
        """Return an integer: seven bits per byte, the lowest first; at most 64 bits."""
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise UnreadableOcdbt("a number is not terminated")

    def varints(self, count: int) -> tuple[int, ...]:
        if count > len(self._content):  # each takes at least one byte
            raise UnreadableOcdbt("it ends too early")
        return tuple(self.varint() for _ in range(count))
