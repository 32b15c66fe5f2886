"""Callbacks by which actions report their progress. `xsft.screen.terminal` shows it on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from xsft.aliases import ShowLine
from xsft.problems import Problem

if TYPE_CHECKING:
    from xsft.conversion.plan import ConversionPlan
    from xsft.conversion.progress import ConversionEvent
    from xsft.effects.local.run import LocalResult
    from xsft.effects.submit.submission import Submission
    from xsft.evaluation.report import EvaluationReport
    from xsft.proposal import Proposal
    from xsft.states.evidence import Evidence
    from xsft.states.rule import Cause
    from xsft.steps import Plan, Planned
    from xsft.trainers.lines import TrainerEvent

ShowWaiting = Callable[[str], AbstractContextManager[ShowLine]]
"""Context manager that shows a line during a short request; it yields a function that replaces the line."""
AskUser = Callable[[str], bool]
"""Function that asks the user a question and returns whether the answer is yes."""


class ProgressView(Protocol):
    """Display of progress lines."""

    def __call__(self, line: str, /) -> None: ...

    def pause(self) -> None:
        """Clear the display for a question; the next line continues below."""


class ConversionView(Protocol):
    """Display of the progress of a conversion."""

    def say(self, line: str) -> None: ...

    def on_event(self, event: ConversionEvent) -> None: ...

    def on_line(self, line: str) -> None:
        """Show the progress that a line of the converter reports."""


def _hear_nothing(*_told: object) -> None:
    """Ignore the report."""


class PlainView(Struct, frozen=True, kw_only=True):
    """Display that passes lines to one function and ignores events; silent by default."""

    show: ShowLine = _hear_nothing

    def __call__(self, line: str, /) -> None:
        self.show(line)

    def pause(self) -> None: ...

    def say(self, line: str) -> None:
        self.show(line)

    def on_event(self, event: ConversionEvent) -> None: ...

    def on_line(self, line: str) -> None: ...


@contextmanager
def wait_silently(*_shown: object) -> Iterator[PlainView]:
    """Show nothing."""
    yield PlainView()


@contextmanager
def _train_silently(_steps: int) -> Iterator[Callable[[TrainerEvent], None]]:
    yield _hear_nothing


class ActionListener(Struct, frozen=True, kw_only=True):
    """The callbacks of an action; by default nothing is shown."""

    working: Callable[[str], AbstractContextManager[ProgressView]] = wait_silently
    """Shows progress lines of long work, under this title."""
    waiting: Callable[[str, str], AbstractContextManager[ShowLine]] = wait_silently
    """Shows one line during a short request, under this title."""
    say: ShowLine = _hear_nothing
    warn: Callable[[Iterable[Problem]], None] = _hear_nothing
    submitting: Callable[[Planned], None] = _hear_nothing
    """Called with the plan, before the first request to the cluster."""
    proposed: Callable[[Proposal], None] = _hear_nothing
    """Called with the differences to the last attempt, before the user is asked."""
    created: Callable[[Submission], None] = _hear_nothing
    """Called with the submission, before the wait for its end."""
    unexpected: Callable[[Evidence, Cause], None] = _hear_nothing
    """Called with the cause, if a run cannot succeed any more."""
    training: Callable[[int], AbstractContextManager[Callable[[TrainerEvent], None]]] = _train_silently
    """Shows the events of a training on this machine; the argument is its number of steps."""
    trained: Callable[[Plan, LocalResult, Path | None], None] = _hear_nothing
    """Called with the result of a training on this machine, and the file of its loss curve."""
    evaluated: Callable[[EvaluationReport], None] = _hear_nothing
    reading: Callable[[], AbstractContextManager[ConversionView]] = wait_silently
    """Shows the progress of reading a folder of weights."""
    converting: Callable[[ConversionPlan], AbstractContextManager[ConversionView]] = wait_silently
    """Shows the progress of a conversion on this machine."""
    converting_on_cluster: Callable[[], ConversionView] = PlainView
