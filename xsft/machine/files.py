"""Reads a workload file safely (no hanging on a pipe, no unbounded size), writes files atomically or only where none
is, and removes the leftovers of a killed writer.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Refused, SpecError, UsageError
from xsft.base.problems import error
from xsft.machine.paths import PRIVATE_FILE, private_folder

MAX_BYTES = 1024 * 1024
"""A workload is a page or two; more is a mistake (a data file, a log)."""
STDIN = "-"
OLD_S = 3600.0
"""No writer takes this long; a younger file may still be in use."""
_BESIDE = re.compile(r"\..+\.[0-9a-f]{12}\.tmp", re.DOTALL)
SCHEMA = Path(__file__).parent.parent / "spec" / "schema.json"


class ContentKind(Struct, frozen=True, kw_only=True):
    """The kind of content that a file is read for."""

    noun: str
    max_bytes: int
    suffixes: tuple[str, ...]
    """Suffixes of the files in the same folder to suggest for a wrong name."""
    where: str
    """Next step for a name with no close match."""
    make: str
    """Next step for an empty file."""
    piped: str = ""
    """Content of standard input instead; empty if it is not read."""
    shorten: str = ""
    """Next step for a file that is too big, if it is the right one."""


WORKLOAD = ContentKind(
    noun="workload",
    max_bytes=MAX_BYTES,
    suffixes=(".yaml", ".yml"),
    where="Check the path; `xsft init` writes a new workload.",
    make="Write a workload; `xsft init` creates one with comments.",
    piped="the workload",
)
PASTE = ContentKind(
    noun="paste",
    max_bytes=MAX_BYTES,
    suffixes=(".sh", ".md", ".txt"),
    where="Check the path, or give - and paste the command.",
    make="Paste an `xpk workload create` line into it.",
    piped="the command",
    shorten="Paste only the command, or a page of text.",
)
PLACES = ContentKind(
    noun="places.yaml",
    max_bytes=MAX_BYTES,
    suffixes=(".yaml", ".yml"),
    where="Check the file it links to.",
    make="Add a place: xsft place add; or remove the file.",
)

_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_MAX_SIBLINGS = 2000


def read_workload_text(
    path: str | Path,
    *,
    kind: ContentKind = WORKLOAD,
    stdin: BinaryIO | None = None,
    open_fd: Callable[[str, int], int] = os.open,
) -> str:
    """Return the file's text; `-` reads standard input. Never reads more than `MAX_BYTES` + 1, never waits for a pipe.

    Raises SpecError with one problem: file-missing, file-directory, file-not-regular, file-too-big, file-unreadable,
    file-encoding or file-empty.
    """
    name = str(path)
    if name != STDIN:
        return _decode_text(name, _from_file(name, open_fd, kind), kind)
    try:
        content = (stdin or sys.stdin.buffer).read(MAX_BYTES + 1)
    except OSError as failed:
        raise _unreadable(STDIN, failed) from None
    return _decode_text(name, content, kind)


def read_content(path: Path, kind: ContentKind) -> str:
    """Return the text of a file of this kind, as `read_workload_text` does."""
    return _decode_text(str(path), _from_file(str(path), os.open, kind), kind)


def read_places_text(path: Path) -> str:
    """Return the text of places.yaml, as `read_workload_text` does."""
    return read_content(path, PLACES)


@contextmanager
def replacing_name(target: Path) -> Iterator[Path]:
    """Yield a hidden name beside `target`, to be renamed to it. Nothing is left of it, also after Ctrl-C."""
    fresh = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)  # already gone if it was renamed


def write_atomic(
    path: str | Path,
    data: bytes | str,
    *,
    durable: bool = True,
    mode: int = 0o666,
    write: Callable[[int, bytes], int] = os.write,
) -> None:
    """Write to a file beside it, sync, rename: readers see the old content or the new, never a part.

    `durable`: the content survives a power failure; not needed for what can be read again. `mode` is that of a new
    file, less the umask. If the target is a symlink, the file it points to is replaced; permissions are kept. Raises
    EnvironmentMissing if the disk or folder does not accept it; the old content is untouched then, and nothing is left
    behind.
    """
    content = data.encode() if isinstance(data, str) else data
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise UsageError(f"cannot write {_printable_name(str(path))}: it is a directory", fix="Give a file in it.")
        with replacing_name(target) as fresh:
            write_new(fresh, content, write=write, durable=durable, mode=mode, like=target)
            fresh.replace(target)
        if durable:
            sync_folder(target.parent)
    except (OSError, RuntimeError, ValueError) as failed:  # RuntimeError: looping links; ValueError: a NUL
        raise not_written(Path(path), failed) from failed


def write_private(path: Path, data: bytes | str) -> None:
    """Write a file that can be made again, into a folder that is made if it is missing; both for this user alone.
    Raises OSError, and as `write_atomic`.
    """
    private_folder(path.parent)
    sweep(path.parent)
    write_atomic(path, data, durable=False, mode=PRIVATE_FILE)


def _decode_text(name: str, content: bytes, kind: ContentKind) -> str:
    if len(content) > kind.max_bytes:
        raise _too_big(name, f"more than {kind.max_bytes:,} bytes", kind)
    fix = "Save the file as UTF-8 text."
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            message = f"{_printable_name(name)} is {encoding}; a {kind.noun} must be UTF-8"
            raise _problem("file-encoding", name, message, fix)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = content.count(b"\n", 0, bad.start) + 1
        message = f"{_printable_name(name)} is not UTF-8 text: line {line} contains the byte 0x{content[bad.start]:02x}"
        raise _problem("file-encoding", name, message, fix) from None
    if not text.strip():
        raise _problem("file-empty", name, f"{_printable_name(name)} is empty", kind.make)
    return text


def _from_file(name: str, open_fd: Callable[[str, int], int], kind: ContentKind) -> bytes:
    if not name:  # Path would take it for the current folder
        raise _problem("file-missing", name, "the file's name is empty", "Give a workload, e.g. workloads/my.yaml.")
    try:
        _refuse_by_stat(name, Path(name).stat(), kind)  # before opening: opening a device can act on it
        fd = open_fd(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            _refuse_by_stat(name, os.fstat(fd), kind)
            return file.read(kind.max_bytes + 1)
    except FileNotFoundError:
        linked = "is a symbolic link to a file that does not exist" if os.path.islink(name) else "does not exist"
        raise _problem("file-missing", name, f"{_printable_name(name)} {linked}", _did_you_mean(name, kind)) from None
    except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
        raise _unreadable(name, failed) from None


def _refuse_by_stat(name: str, status: os.stat_result, kind: ContentKind) -> None:
    if stat.S_ISDIR(status.st_mode):
        fix = f"Give a file in it: {_printable_name(name).rstrip('/')}/*{kind.suffixes[0]}"
        raise _problem("file-directory", name, f"{_printable_name(name)} is a directory", fix)
    if not stat.S_ISREG(status.st_mode):
        message = f"{_printable_name(name)} is a pipe, socket or device, not a file"
        piped = f", or give - and pipe {kind.piped} to standard input" if kind.piped else ""
        raise _problem("file-not-regular", name, message, f"Give a file{piped}.")
    if status.st_size > kind.max_bytes:
        raise _too_big(name, f"{status.st_size:,} bytes", kind)


def _did_you_mean(name: str, kind: ContentKind) -> str:
    path = Path(name)
    try:
        siblings = [p.name for p in islice(path.parent.iterdir(), _MAX_SIBLINGS) if p.suffix in kind.suffixes]
    except (OSError, ValueError):
        return "Check the path; its folder cannot be read either."
    similar = get_close_matches(path.name, siblings, n=3, cutoff=0.6)
    names = ", ".join(_printable_name(str(path.with_name(name))) for name in similar)
    return f"Did you mean {names}?" if similar else kind.where


def write_new(
    path: Path,
    content: bytes,
    *,
    write: Callable[[int, bytes], int],
    mode: int,
    durable: bool = True,
    like: Path | None = None,
) -> None:
    """Write a new file. Raises FileExistsError if the name is taken. `like`: the file whose permissions it gets, if
    that exists.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        if like and like.exists():
            os.fchmod(fd, stat.S_IMODE(like.stat().st_mode))
        unwritten = memoryview(content)
        while unwritten:
            unwritten = unwritten[write(fd, bytes(unwritten)) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make the rename survive a power failure, if the file system can. The content is in place either way."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def not_written(path: Path, failed: Exception) -> EnvironmentMissing:
    """Return the error for a file that could not be written, with what to do about it."""
    name = _printable_name(str(path))
    folder = _printable_name(str(path.parent))
    code = failed.errno if isinstance(failed, OSError) else None
    if code in {errno.ENOSPC, errno.EDQUOT}:
        fix = f"Free some space (df -h {folder}) and run the same command again; no partial file was left."
        return EnvironmentMissing(f"cannot write {name}: the disk is full", fix=fix)
    fixes = {
        errno.ENOENT: f"Create the folder: mkdir -p {folder}",
        errno.EROFS: "The file system is read-only: choose another place.",
    }
    fix = fixes.get(code or 0, f"Check write permission for {folder}.")
    return EnvironmentMissing(f"cannot write {name}: {system_words(failed)}", fix=fix)


def _too_big(name: str, size: str, kind: ContentKind) -> SpecError:
    message = f"{_printable_name(name)} has {size}; a {kind.noun} has at most {kind.max_bytes:,}"
    fix = f"Check that this is a {kind.noun}: give the path of the {kind.suffixes[0]} file, not of data or logs."
    return _problem("file-too-big", name, message, kind.shorten or fix)


def _unreadable(name: str, failed: OSError | ValueError) -> SpecError:
    fix = "Check its permissions (ls -l) and its path."
    return _problem("file-unreadable", name, f"{_printable_name(name)} cannot be read: {system_words(failed)}", fix)


def system_words(failed: Exception) -> str:
    """Return the system's words for an error, e.g. `Permission denied`; its message if there are none."""
    if isinstance(failed, OSError) and failed.strerror:
        return failed.strerror
    return str(failed)


def _printable_name(name: str) -> str:
    if name == STDIN:
        return "standard input"
    return name if name.isprintable() else ascii(name)[1:-1]


def _problem(id: str, name: str, message: str, fix: str) -> SpecError:
    return SpecError((error(id, "", message, fix).in_file(name),))


def sweep(folder: Path, *, older_s: float = OLD_S) -> None:
    """Remove this user's old leftover files. Never raises: they are harmless."""
    before = time.time() - older_s
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # its writer may have renamed it
                if not _BESIDE.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                    continue
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and status.st_mtime < before:
                    Path(entry.path).unlink(missing_ok=True)


def schema_line(folder: Path | None) -> str:
    """Return the comment that makes editors complete keys.

    `folder`: where the file will be written. Inside a checkout the schema is named relative to it, so that the file can
    be committed; elsewhere (and for None) by the address of the installed package.
    """
    return f"# yaml-language-server: $schema={_schema_address(folder)}\n"


def refuse_unless_free(target: Path, *, instead: str) -> None:
    """Raise Refused if `target` exists, EnvironmentMissing if its folder does not; `instead`: the next step in the
    message."""
    if target.exists() or target.is_symlink():
        what = "is a directory" if target.is_dir() else "exists; xsft does not overwrite files"
        raise Refused(f"{target} {what}", fix=f"Choose another file, or move that one away; {instead}")
    if not target.parent.is_dir():
        raise EnvironmentMissing(
            f"cannot write {target}: the folder {target.parent} does not exist",
            fix=f"Create it: mkdir -p {target.parent}",
        )


def _schema_address(folder: Path | None) -> str:
    checkout = SCHEMA.parents[2]
    if folder is None or not (checkout / "pyproject.toml").is_file() or not folder.is_relative_to(checkout):
        return SCHEMA.as_uri()
    up = "../" * len(folder.relative_to(checkout).parts)
    return f"{up or './'}{SCHEMA.relative_to(checkout).as_posix()}"
