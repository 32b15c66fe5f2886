"""Turns signals that end a process into exceptions, so that cleanup runs; and what Ctrl-C says then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""SIGINT is Python's own KeyboardInterrupt."""
NOTHING_CREATED = "Nothing was created yet; run the command again."


@contextmanager
def raise_on_signal(error: Callable[[int], BaseException]) -> Iterator[None]:
    """Raise `error(number)` in the main thread on SIGTERM and SIGHUP while the block runs. A signal that is ignored
    (nohup) or has another handler is left as it is; in another thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _frame: object) -> None:
        raise error(number)

    ours = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def as_ctrl_c() -> AbstractContextManager[None]:
    """Raise KeyboardInterrupt with the signal's name on SIGTERM and SIGHUP, as `raise_on_signal` does: systemd, Slurm
    and `timeout` end a process this way, and what it started must be stopped, and its record closed.
    """
    return raise_on_signal(lambda number: KeyboardInterrupt(signal.Signals(number).name))


@contextmanager
def interrupted_after(seconds: float | None) -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread, as Ctrl-C does, when the block has run that long; None: never."""
    if seconds is None:
        yield
        return

    def handle(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt("timed out")

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def when_interrupted(note: str) -> Iterator[None]:
    """Add `note` to a KeyboardInterrupt raised inside. If blocks are nested, only the innermost adds its note, which is
    the most precise.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        if not getattr(stop, "__notes__", ()):
            stop.add_note(note)
        raise


def goes_on(name: str, *, where: str = "") -> str:
    """Return the note that the run continues. `where`: the options that find the run, if any were given."""
    at = f" {where}" if where else ""
    return (
        f"Run {name} is unaffected and continues. `xsft wait {name}{at}` waits for its end, `xsft logs {name} -f{at}`"
        f" shows its log, `xsft cancel {name}{at}` ends it."
    )
