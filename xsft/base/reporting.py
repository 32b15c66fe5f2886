"""How long work reports its progress: lines, warnings, events and displays; by default nothing is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from msgspec import Struct

from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem

TakeEvent = Callable[[Any], None]
"""Function that takes the events of an activity, and lines that its program printed."""
ShowWaiting = Callable[[str], AbstractContextManager[ShowLine]]
"""Context manager that shows a line during a short request; it yields a function that replaces the line."""
AskUser = Callable[[str], bool]
"""Function that asks the user a question and returns whether the answer is yes."""


class ProgressView(Protocol):
    """Display of progress lines."""

    def __call__(self, line: str, /) -> None: ...

    def pause(self) -> None:
        """Clear the display for a question; the next line continues below."""


def hear_nothing(*_told: object) -> None:
    """Ignore the report."""


class PlainView(Struct, frozen=True, kw_only=True):
    """Display that passes lines to one function; silent by default."""

    show: ShowLine = hear_nothing

    def __call__(self, line: str, /) -> None:
        self.show(line)

    def pause(self) -> None: ...


@contextmanager
def wait_silently(*_shown: object) -> Iterator[PlainView]:
    """Show nothing."""
    yield PlainView()


class WorkEvent(Struct, frozen=True):
    """Base of what work tells once, where it happens. Its types stand beside their producers; `verbs.terminal` shows
    them all."""


class Activity(Struct, frozen=True):
    """Base of what is shown while it lasts, for example a training."""


class Reporter(Struct, frozen=True, kw_only=True):
    """Callbacks that every long action has."""

    working: Callable[[str], AbstractContextManager[ProgressView]] = wait_silently
    """Shows progress lines of long work, under this title."""
    waiting: Callable[[str, str], AbstractContextManager[ShowLine]] = wait_silently
    """Shows one line during a short request, under this title."""
    say: ShowLine = hear_nothing
    warn: Callable[[Iterable[Problem]], None] = hear_nothing
    tell: Callable[[WorkEvent], None] = hear_nothing
    display: Callable[[Activity], AbstractContextManager[TakeEvent]] = wait_silently
    """Shows an activity while it lasts; takes its events."""
