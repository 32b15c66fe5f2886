"""Reads parts of files of rows, on this machine or in a bucket, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO, FileIO
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from xsft.base.errors import Unreachable
from xsft.machine.storage import DEADLINE_S, GcsStorage, StoredObject, storage_for

OPENERS: Mapping[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""By suffix. source: datasets@5.2.0 utils/file_utils.py COMPRESSION_EXTENSION_TO_PROTOCOL."""
COMPRESSED = tuple(OPENERS)


class RowFile(Struct, frozen=True, kw_only=True):
    path: str
    size: int
    """Bytes, as the file is stored."""
    read: Callable[[int, int], bytes]
    """(first byte, maximum number of bytes) -> bytes, decompressed. Raises OSError, or EOFError if a compressed file is
    cut; of a compressed file it reads from its beginning.
    """
    compressed: bool = False
    places: int = 24
    """Places to read besides the beginning, if the file is not read whole; each is a request if it is in a bucket."""
    crc32c: str = ""
    """Checksum of its bytes, as Cloud Storage writes it; empty if unknown."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def unpacked_name(self) -> str:
        """The name of what `read` returns."""
        return PurePosixPath(self.path).stem if self.compressed else self.name


def local_file(path: Path) -> RowFile:
    """Return the file. Raises OSError if it does not exist."""
    opener = OPENERS.get(path.suffix, FileIO)

    def read(start: int, limit: int) -> bytes:
        with opener(path) as opened:
            opened.seek(start)
            try:
                return bytes(opened.read(limit))
            except (lzma.LZMAError, zlib.error) as failed:  # neither is an OSError
                raise OSError(str(failed)) from None

    return RowFile(path=str(path), size=path.stat().st_size, read=read, compressed=path.suffix in COMPRESSED)


def bucket_files(pattern: str, *, env: Mapping[str, str]) -> tuple[RowFile, ...]:
    """Return the objects that a gs:// pattern matches, in the order of their names. Raises Unreachable."""
    storage = storage_for(pattern, env=env, deadline_s=DEADLINE_S)
    if not isinstance(storage, GcsStorage):
        raise Unreachable(f"{pattern} is not in a bucket", fix="Write gs://BUCKET/NAME.")
    matches = re.compile(glob_regex(pattern)).fullmatch
    literal = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return tuple(_bucket_file(one, storage) for one in storage.objects(literal) if matches(one.path))


def glob_regex(pattern: str) -> str:
    """Return the regular expression of a pattern, as fsspec reads it: utils.py [glob_translate] of fsspec@2026.9.0."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern)
    return "".join(_GLOB.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)


_GLOB = {"**/": "(?:.+/)?", "**": ".*", "*": "[^/]+", "?": "[^/]"}


def _bucket_file(one: StoredObject, storage: GcsStorage) -> RowFile:
    path = PurePosixPath(one.path)
    opener = OPENERS.get(path.suffix)

    def read(start: int, limit: int) -> bytes:
        if opener is None:
            return storage.read(one.path, start=start, limit=limit) or b""
        packed = storage.read(one.path, limit=PACKED) or b""
        return _unpack_first(opener, packed, limit=limit, whole=len(packed) == one.size)

    compressed = opener is not None
    return RowFile(path=one.path, size=one.size, read=read, compressed=compressed, places=2, crc32c=one.crc32c)


PACKED = 2**20
"""Bytes read of a compressed object, from its beginning."""


def _unpack_first(opener: Callable[[Any], Any], packed: bytes, *, limit: int, whole: bool) -> bytes:
    """Return the first bytes; of a part of an object with spaces up to the limit, as its end is not known."""
    found = b""
    with opener(BytesIO(packed)) as opened:
        try:
            while len(found) < limit and (piece := opened.read1(limit - len(found))):
                found += piece
        except (lzma.LZMAError, zlib.error) as failed:
            raise OSError(str(failed)) from None
        except EOFError:
            if whole:
                raise
    return found if whole else found + b" " * (limit - len(found))


def content_of(files: Sequence[RowFile]) -> str:
    """Return a digest of the sizes and checksums of the files; empty if one is not known."""
    if not files or not all(file.crc32c for file in files):
        return ""
    return hashlib.sha256(repr([(file.size, file.crc32c) for file in files]).encode()).hexdigest()
