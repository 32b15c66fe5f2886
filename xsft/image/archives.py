"""Files as a tar: a build context, or a layer. The same files give the same bytes, whatever the user and the time."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

from xsft.base.errors import Refused
from xsft.image.code_layer import Layer
from xsft.image.context import ContextFile

MTIME_S = 315_619_200
"""1980-01-02T00:00:00Z. Not 0: a zip (so a wheel, if one is built from the context) cannot hold a time before 1980, in
any time zone.
"""
IN_MEMORY = 16 << 20
"""Bytes; a larger archive is written to a temporary file."""
CHUNK = 1 << 20


def write_tar(files: Sequence[ContextFile], into: IO[bytes]) -> None:
    """Write the tar. Raises Refused if a file has changed since it was hashed: the tag would name other bytes."""
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 16) as tar:
        for folder in _parents(files):
            entry = _entry(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for file in sorted(files, key=lambda file: file.path):
            _add(tar, file)


@contextmanager
def temporary_archive() -> Iterator[IO[bytes]]:
    """Yield a file for an archive that no other process sees; gone at the end."""
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as archive:
        yield cast("IO[bytes]", archive)


def write_layer(files: Sequence[ContextFile], into: IO[bytes]) -> Layer:
    """Write the files as a layer, and return its digests. Raises as `write_tar` does."""
    compressed = _HashingWriter(into)
    # filename and time are in gzip's header; empty, they differ between no two machines
    with gzip.GzipFile(filename="", mode="wb", fileobj=cast("IO[bytes]", compressed), mtime=0) as packing:
        tar = _HashingWriter(cast("IO[bytes]", packing))
        write_tar(files, cast("IO[bytes]", tar))
    into.seek(0)
    return Layer(digest=compressed.digest, diff_id=tar.digest, size=compressed.size)


class _HashingWriter(io.RawIOBase):
    """Passes on what is written, and hashes and counts it."""

    def __init__(self, target: IO[bytes]) -> None:
        super().__init__()
        self._target, self._sha256, self.size = target, hashlib.sha256(), 0

    @property
    def digest(self) -> str:
        return f"sha256:{self._sha256.hexdigest()}"

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        self._sha256.update(content)
        self.size += len(content)
        return self._target.write(content)


def _parents(files: Sequence[ContextFile]) -> list[str]:
    """Return every folder above a file, each before its content: an engine makes missing ones unreadable to others."""
    folders = {str(folder) for file in files for folder in PurePosixPath(file.path).parents}
    return sorted(folders - {"."})


def _entry(path: str) -> tarfile.TarInfo:
    """Return an entry with owner root and one time, so that differences between two users' checkouts do not change
    the image.
    """
    entry = tarfile.TarInfo(path)
    entry.mtime = MTIME_S
    entry.uid = 0
    entry.gid = 0
    return entry


def _add(tar: tarfile.TarFile, file: ContextFile) -> None:
    entry = _entry(file.path)
    if file.kind == "link":
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, file.target or ""
        tar.addfile(entry)
        return
    entry.size, entry.mode = file.size, 0o755 if file.executable else 0o644
    if not file.source:
        tar.addfile(entry)
        return
    try:
        with Path(file.source).open("rb") as source:
            _refuse_change(file, source)
            tar.addfile(entry, source)
    except OSError as failed:  # also if the file's end comes too early
        raise _changed(file, failed.strerror or "it became shorter") from None


def _refuse_change(file: ContextFile, source: IO[bytes]) -> None:
    if file.sha256 and hashlib.file_digest(cast("io.BufferedReader", source), "sha256").hexdigest() != file.sha256:
        raise _changed(file, "its content is different")
    source.seek(0)


def _changed(file: ContextFile, why: str) -> Refused:
    return Refused(
        f"{file.path} changed while the image was built: {why}.",
        fix="Build again once no process writes to the context.",
        id="context-changed",
    )
