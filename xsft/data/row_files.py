"""Files of rows, on this machine or in a bucket."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from glob import glob, has_magic
from os.path import isfile
from pathlib import Path, PurePosixPath

from msgspec import Struct

from xsft.base.errors import Unreachable
from xsft.machine.regular import open_regular
from xsft.machine.storage import DEADLINE_S, GcsStorage, StoredObject, storage_for


class RowFile(Struct, frozen=True, kw_only=True):
    path: str
    size: int
    """Bytes, as the file is stored."""
    stored: Callable[[int, int], bytes]
    """(first byte, maximum number of bytes) -> bytes as they are stored. Raises OSError, Unreachable."""
    crc32c: str = ""
    """Checksum of its bytes, as Cloud Storage writes it; empty if unknown."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


def matching_files(path: str) -> list[Path]:
    """Return the files on this machine, sorted."""
    matches = glob(path, recursive=True) if has_magic(path) else [path]
    return sorted(Path(match) for match in matches if isfile(match))  # False, too, for a name that is too long


def local_file(path: Path) -> RowFile:
    """Return the file. Raises OSError if it does not exist."""
    return RowFile(path=str(path), size=path.stat().st_size, stored=partial(_read_local, path))


def _read_local(path: Path, start: int, limit: int) -> bytes:
    with open_regular(path) as opened:
        opened.seek(start)
        return opened.read(limit)


def bucket_files(pattern: str, *, env: Mapping[str, str]) -> tuple[RowFile, ...]:
    """Return the objects that a gs:// pattern matches, in the order of their names. Raises Unreachable."""
    storage = storage_for(pattern, env=env, deadline_s=DEADLINE_S)
    if not isinstance(storage, GcsStorage):
        raise Unreachable(f"{pattern} is not in a bucket", fix="Write gs://BUCKET/NAME.")
    matches = re.compile(glob_regex(pattern)).fullmatch
    literal = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return tuple(_bucket_file(stored, storage) for stored in storage.objects(literal) if matches(stored.path))


def glob_regex(pattern: str) -> str:
    """Return the regular expression of a pattern, as fsspec reads it: utils.py [glob_translate] of fsspec@2026.9.0."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern)
    return "".join(_GLOB.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)


_GLOB = {"**/": "(?:.+/)?", "**": ".*", "*": "[^/]+", "?": "[^/]"}


def _bucket_file(stored: StoredObject, storage: GcsStorage) -> RowFile:
    read = partial(_read_object, storage, stored.path)
    return RowFile(path=stored.path, size=stored.size, stored=read, crc32c=stored.crc32c)


def _read_object(storage: GcsStorage, path: str, start: int, limit: int) -> bytes:
    return storage.read(path, start=start, limit=limit) or b""


def content_of(files: Sequence[RowFile]) -> str:
    """Return a digest of the sizes and checksums of the files; empty if one is not known."""
    if not files or not all(file.crc32c for file in files):
        return ""
    return hashlib.sha256(repr([(file.size, file.crc32c) for file in files]).encode()).hexdigest()
