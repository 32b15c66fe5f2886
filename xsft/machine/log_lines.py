"""A trainer's output, line by line: written to its log unchanged, and passed on as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

LONGEST = 64 << 10
"""Maximum bytes of a line; a longer one is split, since a program may print for hours without ending a line."""
_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A progress bar ends its line with a carriage return; one at the end of a chunk may be the first half of CR LF."""


def keep_lines(chunks: Iterable[bytes], *, log: BinaryIO, on_line: Callable[[str], None]) -> None:
    """Write every byte to `log` as soon as its line has ended, then pass the line without its end to `on_line`."""
    for line in lines(chunks):
        log.write(line)
        log.flush()
        on_line(line.decode("utf-8", "replace").rstrip("\r\n"))


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line with its end; the last one may have no end."""
    held = b""
    for chunk in chunks:
        looked_at, held, start = max(0, len(held) - 1), held + chunk, 0
        for end in _END.finditer(held, looked_at):
            yield from _split_line(held[start : end.end()])
            start = end.end()
        *long, held = _split_line(held[start:])
        yield from long
    if held:
        yield held


def _split_line(line: bytes) -> Iterator[bytes]:
    """Yield the parts: at least one, and none empty unless the whole line is."""
    for at in range(0, max(1, len(line)), LONGEST):
        yield line[at : at + LONGEST]
