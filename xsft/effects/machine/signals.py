"""Signals that end a process, turned into exceptions, so that what must not be left behind is cleared away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""SIGINT is Python's own KeyboardInterrupt."""


@contextmanager
def raised(error: Callable[[int], BaseException]) -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP raise `error(number)` in the main thread.

    A signal that is ignored (nohup) or that somebody else handles stays so; in another thread nothing changes.
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
