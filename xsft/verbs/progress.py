"""Progress on stderr: a spinner with the seconds on a terminal, plain lines elsewhere. Quick work shows nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from xsft.base.reporting import ProgressView


@contextmanager
def show_progress(title: str) -> Iterator[ProgressView]:
    """Yield the display of progress lines; rich is imported only once there is a line to show."""
    if not sys.stderr.isatty():
        yield _ProgressLines()
        return
    with ExitStack() as stack:
        yield _Spinner(title, stack)


class _ProgressLines:
    def __call__(self, line: str, /) -> None:
        print(f"xsft: {line}", file=sys.stderr, flush=True)

    def pause(self) -> None:
        """Do nothing: plain lines need no clearing."""


class _Spinner:
    def __init__(self, title: str, stack: ExitStack) -> None:
        self._title = title
        self._stack = stack
        self._update: Callable[[str], None] | None = None

    def __call__(self, line: str, /) -> None:
        self._update = self._update or self._start()
        self._update(f"{self._title}: {line}")

    def pause(self) -> None:
        self._stack.close()
        self._update = None

    def _start(self) -> Callable[[str], None]:
        from xsft.verbs.bars import spinner

        display = self._stack.enter_context(spinner(sys.stderr))
        task = display.add_task(self._title, total=None)
        return lambda text: display.update(task, description=text)


@contextmanager
def show_spinner(title: str, line: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows another line, for short requests: a spinner on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _line: None
        return
    with show_progress(title) as say:
        say(line)
        yield say


def print_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
