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

    return program_end(name, follow(tuple(argv), env=env, log=log, on_line=keep), tuple(tail), since=began)


def program_end(name: str, status: int, tail: Sequence[str], *, since: float) -> ProgramEnd:
    """Return the end of a program. `tail`: its last lines; `since`: `clock.monotonic` of its start."""
    true = true_status(status, tail)
    why = signal_text(name, true, since=since) or reason(tail) or f"{name} ended with exit status {true}"
    return ProgramEnd(status=true, why=why)
