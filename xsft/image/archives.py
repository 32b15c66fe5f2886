"""Files as a tar: a build context, or a layer. The same files give the same bytes, whatever the user and the time."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
def context_archive(files: Sequence[ContextFile]) -> Iterator[IO[bytes]]:
    """Yield the files as a tar that no other process sees. Raises Refused if a file has changed since it was hashed."""
    with _temporary_file() as archive:
        write_tar(files, archive)
        archive.seek(0)
        yield archive


@contextmanager
def layer_archive(files: Sequence[ContextFile]) -> Iterator[tuple[Layer, IO[bytes]]]:
    """Yield the files as a layer, with its digests. Raises as `context_archive` does."""
    with context_archive(files) as tar, _temporary_file() as archive:
        # filename and time are in gzip's header; empty, they differ between no two machines
        with gzip.GzipFile(filename="", mode="wb", fileobj=archive, mtime=0) as packing:
            shutil.copyfileobj(tar, packing)
        layer = Layer(digest=_digest_of_file(archive), diff_id=_digest_of_file(tar), size=archive.tell())
        archive.seek(0)
        yield layer, archive


def _temporary_file() -> AbstractContextManager[IO[bytes]]:
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=IN_MEMORY))


def _digest_of_file(archive: IO[bytes]) -> str:
    archive.seek(0)
    return f"sha256:{hashlib.file_digest(cast('io.BufferedReader', archive), 'sha256').hexdigest()}"


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
            if file.sha256 and hashlib.file_digest(source, "sha256").hexdigest() != file.sha256:
                raise _changed(file, "its content is different")
            source.seek(0)
            tar.addfile(entry, source)
    except OSError as failed:  # also if the file's end comes too early
        raise _changed(file, failed.strerror or "it became shorter") from None


def _changed(file: ContextFile, why: str) -> Refused:
    return Refused(
        f"{file.path} changed while the image was built: {why}.",
        fix="Build again once no process writes to the context.",
        id="context-changed",
    )
