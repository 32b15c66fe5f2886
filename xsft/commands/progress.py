"""Progress on stderr: a spinner with the seconds on a terminal, plain lines elsewhere. Quick work shows nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def shown(title: str) -> Iterator[Callable[[str], None]]:
    """Yields the function that takes progress lines; rich is imported only once there is a line to show."""
    if not sys.stderr.isatty():
        yield lambda line: print(f"xsft: {line}", file=sys.stderr, flush=True)
        return
    with ExitStack() as stack:
        spinner = _Spinner(title, stack)
        yield spinner.say


class _Spinner:
    def __init__(self, title: str, stack: ExitStack) -> None:
        self._title = title
        self._stack = stack
        self._update: Callable[[str], None] | None = None

    def say(self, line: str) -> None:
        self._update = self._update or self._start()
        self._update(f"{self._title}: {line}")

    def _start(self) -> Callable[[str], None]:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        display = self._stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
        task = display.add_task(self._title, total=None)
        return lambda text: display.update(task, description=text)


@contextmanager
def spinning(title: str, line: str) -> Iterator[Callable[[str], None]]:
    """For short questions: a spinner on a terminal, nothing elsewhere. Yields what takes another line for it."""
    if not sys.stderr.isatty():
        yield lambda _line: None
        return
    with shown(title) as say:
        say(line)
        yield say
