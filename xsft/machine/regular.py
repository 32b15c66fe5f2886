"""Reads files that another program or person may write: never waits for a pipe, never reads without a limit.

Small files whole, large ones piece by piece, the log of a run line by line, and a secret whose value is in no message.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from xsft.base.errors import EnvironmentMissing, UsageError
from xsft.base.secrets import hold_secret
from xsft.machine import clock
from xsft.machine.files import system_words

MAX_BYTES = 16 * 1024 * 1024
"""Limit for a record or a kubeconfig; a kubeconfig with hundreds of clusters fits."""
EVERY_S = 2.0
"""Time between two lines of progress; work that takes less prints none."""
PIECE = 2**22
POLL_S = 0.3
MAX_SECRET_BYTES = 1024 * 1024
"""A Kubernetes Secret holds at most 1 MiB (kubernetes.io/docs/concepts/configuration/secret)."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open the file for reading. Raises OSError, also for a pipe, socket, device or folder."""
    _refuse_special(path, os.stat(path).st_mode)  # before opening: opening a device can act on it
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse_special(path, os.fstat(fd).st_mode)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_bytes(path: str | Path, *, limit: int = MAX_BYTES) -> bytes:
    """Return the whole content. Raises as `open_regular`, and OSError if it has more than `limit` bytes."""
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(path))
    return content


def read_text(path: str | Path, *, limit: int = MAX_BYTES, errors: str = "strict") -> str:
    """Return the whole content as UTF-8 text. Raises as `read_bytes`, and UnicodeDecodeError if it is not UTF-8 and
    `errors` is strict.
    """
    return read_bytes(path, limit=limit).decode("utf-8", errors)


def _refuse_special(path: str | Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file", str(path))


class ByteProgress:
    """Counts bytes of a known total; `verb` begins each line."""

    def __init__(
        self, say: Callable[[str], None], *, total: int, verb: str = "read", now: Callable[[], float] = clock.monotonic
    ) -> None:
        self._say, self._total, self._verb, self._now = say, total, verb, now
        self._done = 0
        self._began = self._said = now()

    def add(self, count: int) -> None:
        self._done += count
        now = self._now()
        if now < self._said + EVERY_S:
            return
        self._said = now
        rate = self._done / (now - self._began)
        done = f"{self._verb} {self._done / 1e9:.2f} of {self._total / 1e9:.2f} GB"
        self._say(f"{done}, {rate / 1e6:.0f} MB/s, {max(self._total - self._done, 0) / rate:.0f} s left")


def pieces_of(path: str | Path, progress: ByteProgress) -> Iterator[bytes]:
    """Yield the content of a regular file. Raises OSError."""
    with open_regular(path) as opened:
        while piece := opened.read(PIECE):
            progress.add(len(piece))
            yield piece


def read_log(path: Path, *, tail: int | None = None) -> Iterator[str]:
    """Yield its lines, the last `tail` of them. Raises EnvironmentMissing if it cannot be read."""
    with _open_log(path) as log:
        yield from _last_lines((_decode_line(line) for line in log), tail)


def follow_log(
    path: Path, *, tail: int | None, alive: Callable[[], bool], pause: Callable[[float], None] = clock.pause
) -> Iterator[str]:
    """Yield the lines so far and new ones, until the run's xsft releases the lock and all lines are read."""
    with _open_log(path) as log:
        yield from _last_lines((_decode_line(line) for line in log), tail)
        part = b""
        while True:
            going = alive()  # checked before reading: lines written until then are read below
            for line in log:
                part += line
                if part.endswith(b"\n"):
                    yield _decode_line(part)
                    part = b""
            if not going:
                break
            pause(POLL_S)
        if part:
            yield _decode_line(part)


def _last_lines(lines: Iterator[str], tail: int | None) -> Iterator[str]:
    return lines if tail is None else iter(deque(lines, maxlen=tail))


def _decode_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _open_log(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as failed:
        raise EnvironmentMissing(
            f"{path} cannot be read: {system_words(failed)}",
            fix="If the log was deleted, xsft status shows what the run's record has.",
        ) from None


def read_secret_file(path: Path) -> bytes:
    """Return the file's bytes, without the line ends that editors append. Raises UsageError if the file is empty."""
    try:
        with open_regular(path) as file:
            return _check_value(file.read(MAX_SECRET_BYTES + 1), "The file of --from-file")
    except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
        reason = getattr(failed, "strerror", None) or "the name is not valid"
        fix = "Check the path, or pipe the value in; its content is not shown."
        raise UsageError(f"The file of --from-file cannot be read: {reason}.", fix=fix) from None


def read_secret_stdin(stdin: BinaryIO) -> bytes:
    """Return standard input to its end. Raises UsageError if it is a terminal, on which the value would be visible."""
    if stdin.isatty():
        raise UsageError(
            "Standard input is a terminal, and a value typed there can be seen.",
            fix="Pipe it in (xsft secret create NAME < FILE), or give --from-file FILE.",
        )
    return _check_value(stdin.read(MAX_SECRET_BYTES + 1), "Standard input")


def _check_value(content: bytes, what: str) -> bytes:
    value = content.rstrip(b"\r\n")
    if not value.strip():
        raise UsageError(f"{what} is empty.", fix="Give the value, e.g. a token, in it.")
    if len(content) > MAX_SECRET_BYTES:
        raise UsageError(
            f"{what} has more than {MAX_SECRET_BYTES:,} bytes.", fix="Check that it is the value; a token is one line."
        )
    hold_secret(value.decode("utf-8", "replace"))
    return value
