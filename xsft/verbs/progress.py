"""What is said on stderr, so that a piped stdout stays clean: lines, questions, and progress as a spinner with the
seconds on a terminal, as plain lines elsewhere. Quick work shows nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from xsft.base.reporting import AskUser, ProgressView
from xsft.machine.streams import has_terminal


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
        from xsft.verbs.console import spinner

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


def confirm(question: str) -> bool:
    """Ask the question and return whether the answer is yes; an empty answer is no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def asker(*, yes: bool) -> AskUser | None:
    """Return what asks the user; None if the answer is given already, or without a terminal."""
    return confirm if has_terminal() and not yes else None


def choose(question: str, options: Sequence[str], default: str = "") -> str:
    """Ask for one of the options by its number, or for another value; an empty answer is the default."""
    lines = [f"  {number}  {option}\n" for number, option in enumerate(options, start=1)]
    offered = f" [{default}]" if default else " [none]"
    sys.stderr.write("".join((*lines, f"{question}{offered}: ")))
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer.isascii() and answer.isdecimal() and 0 < int(answer) <= len(options):
        return options[int(answer) - 1]
    return answer or default
