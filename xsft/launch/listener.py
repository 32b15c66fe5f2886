"""Callbacks by which actions report their progress. `xsft.verbs.terminal` shows it on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xsft.base.reporting import PlainView, Reporter, hear_nothing, wait_silently

if TYPE_CHECKING:
    from xsft.cluster.evidence import Evidence
    from xsft.evaluation.report import EvaluationReport
    from xsft.launch.local_run import LocalResult
    from xsft.launch.proposal import Proposal
    from xsft.launch.submission import Submission
    from xsft.planning.steps import Plan, Planned
    from xsft.runs.cause_rule import Cause
    from xsft.trainer.lines import TrainerEvent
    from xsft.weights.conversion_plan import ConversionPlan
    from xsft.weights.conversion_progress import ConversionEvent


class ConversionView(Protocol):
    """Display of the progress of a conversion."""

    def say(self, line: str) -> None: ...

    def on_event(self, event: ConversionEvent) -> None: ...

    def on_line(self, line: str) -> None:
        """Show the progress that a line of the converter reports."""


@contextmanager
def _train_silently(_steps: int) -> Iterator[Callable[[TrainerEvent], None]]:
    yield hear_nothing


class ActionListener(Reporter, frozen=True, kw_only=True):
    """The callbacks of an action; by default nothing is shown."""

    submitting: Callable[[Planned], None] = hear_nothing
    """Called with the plan, before the first request to the cluster."""
    proposed: Callable[[Proposal], None] = hear_nothing
    """Called with the differences to the last attempt, before the user is asked."""
    created: Callable[[Submission], None] = hear_nothing
    """Called with the submission, before the wait for its end."""
    unexpected: Callable[[Evidence, Cause], None] = hear_nothing
    """Called with the cause, if a run cannot succeed any more."""
    training: Callable[[int], AbstractContextManager[Callable[[TrainerEvent], None]]] = _train_silently
    """Shows the events of a training on this machine; the argument is its number of steps."""
    trained: Callable[[Plan, LocalResult, Path | None], None] = hear_nothing
    """Called with the result of a training on this machine, and the file of its loss curve."""
    evaluated: Callable[[EvaluationReport], None] = hear_nothing
    reading: Callable[[], AbstractContextManager[ConversionView]] = wait_silently
    """Shows the progress of reading a folder of weights."""
    converting: Callable[[ConversionPlan], AbstractContextManager[ConversionView]] = wait_silently
    """Shows the progress of a conversion on this machine."""
    converting_on_cluster: Callable[[], ConversionView] = PlainView
