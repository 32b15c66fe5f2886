"""A build context as a tar stream: the same bytes for the same files, whatever the user and time."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from msgspec import Struct, field

from xsft.base.errors import Refused
from xsft.image.model import ContextFile
from xsft.image.progress import SentContext

MTIME_S = 315_619_200
"""1980-01-02T00:00:00Z. Not 0: a zip (so a wheel, if one is built from the context) cannot hold a time before 1980, in
any time zone.
"""


def write_context(
    files: Sequence[ContextFile], into: IO[bytes], *, on_sent: Callable[[SentContext], None] = lambda _: None
) -> None:
    """Write the tar; a large context is never held in memory. Raises Refused if a file has changed since it was hashed:
    the tag would name other bytes.
    """
    total, sent = sum(file.size for file in files), 0
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 16) as tar:
        for file in with_folders(files):
            if file.kind == "file":
                _add(tar, file)
            else:
                tar.addfile(entry(file))
            sent += file.size
            on_sent(SentContext(bytes=sent, total=total))


def with_folders(files: Sequence[ContextFile]) -> Iterator[ContextFile]:
    """Yield the files sorted, each folder before its content, including folders that are not listed."""
    named = {file.path: file for file in files}
    parents = {str(folder) for path in named for folder in PurePosixPath(path).parents}
    for missing in parents - {".", *named}:
        named[missing] = ContextFile(path=missing, kind="folder")
    yield from (named[path] for path in sorted(named))


def entry(file: ContextFile) -> tarfile.TarInfo:
    """Return the entry, with owner root, one time and one of two modes, so that differences between two users'
    checkouts do not change the image.
    """
    info = tarfile.TarInfo(file.path)
    info.mtime, info.uid, info.gid = MTIME_S, 0, 0
    match file.kind:
        case "file":
            info.size, info.mode = file.size, 0o755 if file.executable else 0o644
        case "folder":
            info.type, info.mode = tarfile.DIRTYPE, 0o755
        case "link":
            info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, file.target or ""
    return info


class _HashingReader(Struct):
    """A reader that hashes what is read through it."""

    source: IO[bytes]
    sha: Any = field(default_factory=hashlib.sha256)

    def read(self, size: int = -1) -> bytes:
        chunk = self.source.read(size)
        self.sha.update(chunk)
        return chunk


def _add(tar: tarfile.TarFile, file: ContextFile) -> None:
    try:
        with Path(file.source).open("rb") as source:
            content = _HashingReader(source)
            tar.addfile(entry(file), cast("IO[bytes]", content))
            longer = source.read(1) != b""
    except BrokenPipeError:  # raised by the pipe to the engine, not by the file
        raise
    except OSError as failed:  # also if tarfile reaches the file's end too early
        raise _context_changed(file, failed.strerror or "it became shorter") from None
    if longer:
        raise _context_changed(file, "it became longer")
    if file.sha256 and content.sha.hexdigest() != file.sha256:
        raise _context_changed(file, "its content is different")


def _context_changed(file: ContextFile, why: str) -> Refused:
    return Refused(
        f"{file.path} changed while the image was built: {why}.",
        fix="Build again once no process writes to the context.",
        id="context-changed",
    )
