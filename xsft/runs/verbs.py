"""The verbs about runs for Python: the values behind what the command line prints. Nothing is printed or asked.

Every function takes exact run names, and `place`, `context` and `namespace` as `xsft status` does; without them it
looks at all of places.yaml, the clusters of runs submitted from this machine, and this machine. All raise UsageError
for a name that no run has, and Unreachable if the run's cluster does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from xsft.base.problems import Problem
from xsft.runs.cancel import CancelResult, cancel_run
from xsft.runs.cause_rule import Explanation
from xsft.runs.compare import LossCurve, curves_of
from xsft.runs.log_roles import LogRequest
from xsft.runs.log_sources import RunLogs
from xsft.runs.lookup import RowFilter
from xsft.runs.read_all import read_status, runs_of
from xsft.runs.read_evidence import evidence_of, explain_run, forgotten_attempt
from xsft.runs.rows import Row
from xsft.runs.run_logs import found_lines
from xsft.runs.waiting import POLL_S, Clock, WaitLimits, parse_goal, row_of_waited, wait_for


class Statuses(Struct, frozen=True, kw_only=True):
    """The result of `xsft status`."""

    runs: tuple[Row, ...]
    """The runs: active ones first, then the newest first."""
    problems: tuple[Problem, ...]
    """Clusters that did not answer, which does not hide the others; and runs whose loss is 0.000."""


def status(
    runs: Sequence[str] = (),
    *,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    everything: bool = False,
) -> Statuses:
    """Return every run that is active or ended in the last day; `runs`: these, by their exact names. `everything`: also
    runs that ended before.

    Without a place or a context it reads all of places.yaml, the clusters of runs submitted from here, and this
    machine. Raises UsageError for a name that no run has, Unreachable if nothing could be read.
    """
    access = runs_of(runs, place=place, context=context, namespace=namespace, everything=everything)
    status = read_status(access, RowFilter(runs=tuple(runs), everything=everything))
    if status.missing:
        raise status.missing
    return Statuses(runs=status.rows, problems=status.problems)


def why(
    run: str,
    *,
    attempt: int | None = None,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Explanation:
    """Return the most likely cause of the run's state, with its evidence, the next step, and other findings."""
    runs = runs_of((run,), place=place, context=context, namespace=namespace)
    runs.every_pod = True
    why = explain_run(
        run, runs=runs, evidence=partial(evidence_of, runs), recorded=partial(forgotten_attempt, runs), attempt=attempt
    )
    return why.explanation


def wait(
    run: str,
    *,
    until: str = "done",
    timeout_s: float | None = None,
    poll_s: float = POLL_S,
    say: Callable[[str], None] = lambda _line: None,
    place: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> Row:
    """Wait until the run is `done`, `running` or at `step=N`, and return it. `say` gets a line on every change.

    Raises RunFailed if it cannot reach that, TimedOut after `timeout_s`, Unknown if it is gone and its end is unknown,
    ValueError for another word in `until`.
    """
    goal = parse_goal(until)
    clock = Clock()
    patience = WaitLimits(timeout_s=timeout_s, poll_s=poll_s, began_at=clock.monotonic())
    runs = runs_of((run,), place=place, context=context, namespace=namespace)
    waited = wait_for(run, goal=goal, look=runs.look, patience=patience, clock=clock, say=say)
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
    """Yield lines of the process that prints steps, the last `tail`; with `follow` until the run has ended.

    `every`: of all its processes, 8 at most.
    """
    runs = runs_of((run,), place=place, context=context, namespace=namespace)
    request = LogRequest(every=every, tail=tail, follow=follow, attempt=attempt)
    return found_lines(run, asked=request, runs=runs, logs=RunLogs(runs=runs), timestamps=False).lines


def cancel(
    run: str, *, place: str | None = None, context: str | None = None, namespace: str | None = None
) -> CancelResult:
    """Delete exactly the JobSet of that run, by its UID, without a question; return what was done and what it lost.

    A run that has ended gives `action="nothing"`.
    """
    runs = runs_of((run,), place=place, context=context, namespace=namespace)
    return cancel_run(run, runs=runs, agree=lambda _about: None)


def compare(
    runs: Sequence[str], *, place: str | None = None, context: str | None = None, namespace: str | None = None
) -> tuple[LossCurve, ...]:
    """Return the losses of each run by step, in the order given. Raises Unknown if no run has one."""
    access = runs_of(runs, place=place, context=context, namespace=namespace)
    return curves_of(tuple(dict.fromkeys(runs)), runs=access, read=RunLogs(runs=access).curves)[0]
