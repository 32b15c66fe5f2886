"""What a trainer prints, line by line: into its log as it is, and passed on as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

LONGEST = 64 << 10
"""Bytes of a line; what is longer comes in parts, for a program may print for hours without ending one."""
_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A progress bar ends its line with a carriage return; one that came last may be half of `\\r\\n`."""


def keep(chunks: Iterable[bytes], *, log: BinaryIO, on_line: Callable[[str], None]) -> None:
    """Every byte to `log` as soon as its line has ended, then the line to `on_line`, without its end."""
    for line in lines(chunks):
        log.write(line)
        log.flush()
        on_line(line.decode("utf-8", "replace").rstrip("\r\n"))


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Each with its end; what ends without one is a line too."""
    held = b""
    for chunk in chunks:
        looked_at, held, start = max(0, len(held) - 1), held + chunk, 0
        for end in _END.finditer(held, looked_at):
            yield from _parts(held[start : end.end()])
            start = end.end()
        *long, held = _parts(held[start:])
        yield from long
    if held:
        yield held


def _parts(line: bytes) -> Iterator[bytes]:
    """At least one, the last of them not empty unless all is."""
    for at in range(0, max(1, len(line)), LONGEST):
        yield line[at : at + LONGEST]
