"""The log of a run on this machine: a file that its xsft writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from xsft.base.errors import EnvironmentMissing
from xsft.machine import clock
from xsft.machine.files import system_words
from xsft.machine.regular import open_regular

POLL_S = 0.3


def read_log(path: Path, *, tail: int | None = None) -> Iterator[str]:
    """Yield its lines, the last `tail` of them. Raises EnvironmentMissing if it cannot be read."""
    yield from _last_lines(_read_lines(path), tail)


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


def _read_lines(path: Path) -> Iterator[str]:
    with _open_log(path) as log:
        for line in log:
            yield _decode_line(line)


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
