"""Reads large files piece by piece, and reports the rate and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from xsft.machine import clock
from xsft.machine.regular import open_regular

EVERY_S = 2.0
"""Time between two lines of progress; work that takes less prints none."""
PIECE = 2**22


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
