"""The verbs about runs for Python: the values behind what the command line prints. Nothing is printed or asked.

Every function takes exact run names, and `place`, `context` and `namespace` as `xsft status` does; without them it
looks at all of places.yaml, the clusters of runs submitted from here, and this machine. All raise UsageError for a name
that no run has, and Unreachable where the run's cluster does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from xsft.commands.log_request import LogRequest
from xsft.commands.run_sources import runs_asked
from xsft.effects.runs.sources import Asked

if TYPE_CHECKING:
    from xsft.commands.cancel import Cancelled
    from xsft.effects.runs.losses import Curve
    from xsft.states.rows import Row
    from xsft.states.rule import Explanation


def why(
    run: str,
    *,
    attempt: int | None = None,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Explanation:
    """The one cause of the run's state, with its evidence and the next step, and what else was seen."""
    from xsft.commands import why as verb

    runs = runs_asked(Asked(place=place, context=context, namespace=namespace), run)
    return verb.explained(run, world=verb.world_of(runs), attempt=attempt).explanation


def wait(
    run: str,
    *,
    until: str = "done",
    timeout_s: float | None = None,
    poll_s: float = 10.0,
    say: Callable[[str], None] = lambda _line: None,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Row:
    """The run, once it is `done`, `running` or at `step=N`. `say` hears every change.

    Raises RunFailed where it will not come there, TimedOut after `timeout_s`, Unknown where it is gone and nothing says
    how it ended, ValueError for another word in `until`.
    """
    from xsft.commands.changes import changes_of
    from xsft.commands.waiting import Patience, row_of_waited, wait_for
    from xsft.states.waiting import parse_goal

    goal = parse_goal(until)
    query, clock = changes_of(runs_asked(Asked(place=place, context=context, namespace=namespace), run))
    patience = Patience(timeout_s=timeout_s, poll_s=poll_s, began_at=clock.monotonic())
    waited = wait_for(run, goal=goal, query=query, patience=patience, clock=clock, say=say)
    return row_of_waited(run, goal, waited)


def logs(
    run: str,
    *,
    tail: int | None = None,
    follow: bool = False,
    every: bool = False,
    attempt: int | None = None,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Iterator[str]:
    """Lines of the process that prints steps, the last `tail`; with `follow` until the run has ended.

    `every`: of all its processes, 8 at most.
    """
    from xsft.commands import logs as verb

    runs = runs_asked(Asked(place=place, context=context, namespace=namespace), run)
    asked = LogRequest(every=every, tail=tail, follow=follow, attempt=attempt)
    return verb.found_lines(run, asked=asked, world=verb.world_of(runs), timestamps=False).lines


def cancel(
    run: str, *, place: str | None = None, context: str | None = None, namespace: str | None = None
) -> Cancelled:
    """Delete exactly the JobSet of that run, by its UID, without a question; what was done and what it lost.

    A run that has ended leaves `action="nothing"`.
    """
    from xsft.commands import cancel as verb

    runs = runs_asked(Asked(place=place, context=context, namespace=namespace), run)
    return verb.cancelled(run, world=verb.world_of(runs), agree=lambda _about: None)


def compare(
    runs: Sequence[str], *, place: str | None = None, context: str | None = None, namespace: str | None = None
) -> tuple[Curve, ...]:
    """The losses of each run by step, in the order given. Raises Unknown where none has one."""
    from xsft.commands import compare as verb

    found = runs_asked(Asked(place=place, context=context, namespace=namespace), *runs)
    return verb.curves_of(tuple(dict.fromkeys(runs)), world=verb.world_of(found))[0]
