"""Runs a program of MaxText's environment to its end, and says why it failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from xsft.machine import clock
from xsft.machine.watched_process import follow
from xsft.runs.failures import reason
from xsft.trainer.kernel_kills import signal_text, true_status

TAIL_LINES = 2000


class ProgramEnd(Struct, frozen=True, kw_only=True):
    status: int
    """Exit status, 128 + n for signal n."""
    why: str
    """Why it failed: the signal or its last exception, else the exit status."""


def follow_program(
    argv: Sequence[str],
    *,
    name: str,
    env: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None] = lambda _line: None,
) -> ProgramEnd:
    """Run it as `trainer_process.follow` does. `name`: what the reason calls it."""
    tail, began = deque[str](maxlen=TAIL_LINES), clock.monotonic()

    def keep(line: str) -> None:
        tail.append(line)
        on_line(line)

    status = true_status(follow(tuple(argv), env=env, log=log, on_line=keep), tuple(tail))
    why = signal_text(name, status, since=began) or reason(tuple(tail)) or f"{name} ended with exit status {status}"
    return ProgramEnd(status=status, why=why)
