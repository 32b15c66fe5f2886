"""Files as a tar: a build context, or a layer. The same files give the same bytes, whatever the user and the time."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from xsft.base.errors import Refused
from xsft.image.code_layer import Layer, digest_of
from xsft.image.context import ContextFile

MTIME_S = 315_619_200
"""1980-01-02T00:00:00Z. Not 0: a zip (so a wheel, if one is built from the context) cannot hold a time before 1980, in
any time zone.
"""


def write_tar(files: Sequence[ContextFile], into: IO[bytes]) -> None:
    """Write the tar. Raises Refused if a file has changed since it was hashed: the tag would name other bytes."""
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 16) as tar:
        for folder in _parents(files):
            entry = _entry(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for file in sorted(files, key=lambda file: file.path):
            _add(tar, file)


def layer_archive(files: Sequence[ContextFile]) -> tuple[Layer, bytes]:
    """Return the files as a layer, in memory, with its digests. Raises as `write_tar` does."""
    tar = io.BytesIO()
    write_tar(files, tar)
    archive = io.BytesIO()
    # filename and time are in gzip's header; empty, they differ between no two machines
    with gzip.GzipFile(filename="", mode="wb", fileobj=archive, mtime=0) as packing:
        packing.write(tar.getbuffer())
    content = archive.getvalue()
    return Layer(digest=digest_of(content), diff_id=digest_of(tar.getvalue()), size=len(content)), content


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
    entry.size = file.size
    entry.mode = 0o755 if file.executable else 0o644
    if not file.source:
        tar.addfile(entry, io.BytesIO(file.content))
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
