"""Progress of long work, on stderr: a spinner on a terminal, plain lines elsewhere. Nothing appears for work that is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def notices() -> Iterator[Callable[[str], None]]:
    """A function that says one line; rich is imported only once there is something to say."""
    if not sys.stderr.isatty():
        yield _plain
        return
    spinner = _Spinner()
    try:
        yield spinner.say
    finally:
        spinner.stop()


def _plain(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class _Spinner:
    def __init__(self) -> None:
        self._status: object = None

    def say(self, line: str) -> None:
        from rich.console import Console
        from rich.status import Status

        if not isinstance(self._status, Status):
            self._status = Status(line, console=Console(stderr=True))
            self._status.start()
        self._status.update(line)

    def stop(self) -> None:
        from rich.status import Status

        if isinstance(self._status, Status):
            self._status.stop()
