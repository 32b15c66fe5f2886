"""What actions report while they work, and what hears it. `xsft.screen.terminal` shows it on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xsft.aliases import ShowLine
from xsft.problems import Problem

if TYPE_CHECKING:
    from xsft.conversion.plan import ConversionPlan
    from xsft.conversion.progress import ConversionEvent
    from xsft.effects.local.run import LocalResult
    from xsft.effects.submit.proposal import Proposal
    from xsft.evaluation.report import EvaluationReport
    from xsft.states.evidence import Evidence
    from xsft.states.rule import Cause
    from xsft.steps import Plan, Planned
    from xsft.trainers.lines import TrainerEvent

ShowWaiting = Callable[[str], AbstractContextManager[ShowLine]]
"""Shows a line during a short request, and yields a function that replaces it."""
AskUser = Callable[[str], bool]
"""Asks the user a question, and returns whether the answer is yes."""


@contextmanager
def wait_silently(_line: str) -> Iterator[ShowLine]:
    """Show nothing."""
    yield lambda _line: None


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
        """Show what a line of the converter tells."""


class ActionListener(Protocol):
    """Hears what an action does."""

    def working(self, title: str) -> AbstractContextManager[ProgressView]:
        """Show the lines of work that may take long."""

    def waiting(self, title: str, line: str) -> AbstractContextManager[ShowLine]:
        """Show a line during a short request."""

    def say(self, line: str) -> None: ...

    def warn(self, problems: Iterable[Problem]) -> None: ...

    def submitting(self, plan: Planned) -> None:
        """Hear what the run will take, before the cluster is asked."""

    def proposed(self, proposal: Proposal) -> None:
        """Hear how the run differs from its last attempt, before the user is asked."""

    def unexpected(self, evidence: Evidence, cause: Cause) -> None:
        """Hear why a run cannot succeed."""

    def training(self, *, steps: int) -> AbstractContextManager[Callable[[TrainerEvent], None]]:
        """Show the events of a training on this machine."""

    def trained(self, plan: Plan, result: LocalResult, picture: Path | None) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def reading(self) -> AbstractContextManager[ConversionView]:
        """Show how far a folder of weights is read."""

    def converting(self, plan: ConversionPlan) -> AbstractContextManager[ConversionView]:
        """Show a conversion on this machine."""

    def converting_on_cluster(self) -> ConversionView: ...


class Silence:
    """Shows nothing."""

    def __call__(self, line: str, /) -> None: ...

    def pause(self) -> None: ...

    def say(self, line: str) -> None: ...

    def on_event(self, event: ConversionEvent) -> None: ...

    def on_line(self, line: str) -> None: ...

    def working(self, title: str) -> AbstractContextManager[ProgressView]:
        return nullcontext(self)

    def waiting(self, title: str, line: str) -> AbstractContextManager[ShowLine]:
        return nullcontext(self)

    def warn(self, problems: Iterable[Problem]) -> None: ...

    def submitting(self, plan: Planned) -> None: ...

    def proposed(self, proposal: Proposal) -> None: ...

    def unexpected(self, evidence: Evidence, cause: Cause) -> None: ...

    def training(self, *, steps: int) -> AbstractContextManager[Callable[[TrainerEvent], None]]:
        return nullcontext(lambda _event: None)

    def trained(self, plan: Plan, result: LocalResult, picture: Path | None) -> None: ...

    def evaluated(self, report: EvaluationReport) -> None: ...

    def reading(self) -> AbstractContextManager[ConversionView]:
        return nullcontext(self)

    def converting(self, plan: ConversionPlan) -> AbstractContextManager[ConversionView]:
        return nullcontext(self)

    def converting_on_cluster(self) -> ConversionView:
        return self
