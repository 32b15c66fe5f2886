"""Files of rows, on this machine or in a bucket: their names, a digest of their content, and a sample of them.

The sample of a bucket is fetched because MaxText's environment has no client of Cloud Storage. The digest is made of
the checksums that Cloud Storage gives its objects, also on this machine.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from glob import glob, has_magic
from os.path import isfile
from pathlib import Path, PurePosixPath

import google_crc32c
from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import SpecError, Unreachable
from xsft.base.lenient import ShowLine
from xsft.base.problems import error
from xsft.catalog.data import located
from xsft.data.passes import Split
from xsft.machine.process import own_environment
from xsft.machine.regular import ByteProgress, open_regular, pieces_of
from xsft.machine.storage import DEADLINE_S, GcsStorage, storage_for


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
    files: list[RowFile] = []
    for stored in storage.objects(literal):
        if matches(stored.path):
            read = partial(_read_object, storage, stored.path)
            files.append(RowFile(path=stored.path, size=stored.size, stored=read, crc32c=stored.crc32c))
    return tuple(files)


def glob_regex(pattern: str) -> str:
    """Return the regular expression of a pattern, as fsspec reads it: utils.py [glob_translate] of fsspec@2026.9.0."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]/]+\])", pattern)
    return "".join(_GLOB.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)


_GLOB = {"**/": "(?:.+/)?", "**": ".*", "*": "[^/]+", "?": "[^/]"}


def _read_object(storage: GcsStorage, path: str, start: int, limit: int) -> bytes:
    return storage.read(path, start=start, limit=limit) or b""


def content_of(files: Sequence[RowFile]) -> str:
    """Return a digest of the sizes and checksums of the files; empty if one is not known."""
    if not files or not all(file.crc32c for file in files):
        return ""
    return hashlib.sha256(repr([(file.size, file.crc32c) for file in files]).encode()).hexdigest()


MAX_BYTES = 256 * 2**20
"""Bytes of local files that are read for a digest, in 0.2 s; larger ones are known by size and time."""


def files_content(pattern: str, *, say: ShowLine = lambda _line: None) -> str:
    """Return a digest of all files that the pattern matches, the same on this machine and in a bucket; empty if one
    cannot be read.
    """
    path = located(pattern)
    try:
        if path.startswith("gs://"):
            return content_of(bucket_files(pattern, env=own_environment()))
        if "://" in path:
            return ""
        paths = matching_files(path)
        files = [local_file(file) for file in paths]
        total = sum(file.size for file in files)
        if total > MAX_BYTES:  # not the same as in a bucket, but known in no time
            stamps = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in paths]
            return hashlib.sha256(repr(stamps).encode()).hexdigest()
        progress = ByteProgress(say, total=total)
        return content_of([_with_checksum(file, progress) for file in files])
    except (OSError, Unreachable):
        return ""


def _with_checksum(file: RowFile, progress: ByteProgress) -> RowFile:
    checksum = 0
    for piece in pieces_of(file.path, progress):
        checksum = google_crc32c.extend(checksum, piece)
    return replace(file, crc32c=base64.b64encode(struct.pack(">I", checksum)).decode())


SAMPLE_BYTES = 8 * 2**20
"""Bytes fetched of all files together, unless all rows are asked for."""
GROUP_BYTES = 32 * 2**20
"""Bytes fetched of the beginning of a larger parquet file, where its first row group is."""
FOOTER = 64 * 2**10
"""Bytes read from the end of a parquet file; a longer footer is read by a second request."""
LINES = (".json", ".jsonl", ".ndjson", ".csv", ".txt")
"""Formats of lines: a beginning that is read alone ends at a line."""


class FetchedRows(Struct, frozen=True, kw_only=True):
    """Files on this machine with the rows of a split, or the first ones of them."""

    split: Split
    pattern: str
    partial: bool = False
    footed: tuple[Path, ...] = ()
    """Parquet files of which only the first row group and the footer were fetched."""


def fetch_rows(pattern: str, folder: Path, *, split: Split, rows: int) -> FetchedRows:
    """Return the files, fetched into the new `folder` if they are in a bucket. `rows`: sys.maxsize fetches all.

    Raises Unreachable, SpecError if no file matches, or none can be read in part.
    """
    if not pattern.startswith("gs://"):
        return FetchedRows(split=split, pattern=located(pattern))
    files = bucket_files(pattern, env=own_environment())
    if not files:
        raise SpecError((error("data-unreadable", "data", f"No file matches {pattern}.", "Correct the path."),))
    folder.mkdir()
    remaining = sys.maxsize if rows == sys.maxsize else SAMPLE_BYTES
    fetched: list[Path] = []
    footed: list[Path] = []
    for file in files:
        target = folder / f"{len(fetched):05d}-{PurePosixPath(file.path).name}"
        if file.size <= remaining:
            target.write_bytes(file.stored(0, file.size))
        elif fetched:  # whole files are a sample already
            break
        else:
            footed.extend(_fetch_beginning(file, target))
        fetched.append(target)
        remaining -= file.size
    is_partial = len(fetched) < len(files) or remaining < 0
    return FetchedRows(split=split, pattern=f"{folder}/*", partial=is_partial, footed=tuple(footed))


def _fetch_beginning(file: RowFile, target: Path) -> Sequence[Path]:
    """Write the first rows of a file; return it if it is parquet, of which the footer follows after a hole."""
    if target.suffix in LINES:
        start = file.stored(0, SAMPLE_BYTES)
        target.write_bytes(start[: start.rfind(b"\n") + 1])
        return ()
    if target.suffix != ".parquet":
        message = f"{file.path} is larger than {SAMPLE_BYTES // 2**20} MB, and its beginning cannot be read alone."
        fix = "Read all rows (`xsft data inspect FILE --all`), or write JSON lines or parquet."
        raise SpecError((error("data-unreadable", "data", message, fix),))
    footer = _footer(file)
    with target.open("xb") as written:
        written.write(file.stored(0, min(GROUP_BYTES, file.size - len(footer))))
        written.seek(file.size - len(footer))
        written.write(footer)
    return (target,)


def _footer(file: RowFile) -> bytes:
    """Return the end of a parquet file: metadata, its length in 4 bytes, and `PAR1`. source: parquet-format, File
    format.
    """
    tail = file.stored(file.size - FOOTER, FOOTER)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed <= FOOTER:
        return tail
    return file.stored(file.size - needed, needed)
