"""A query for runs: the selection, the reads, the states, and the resulting rows.

One pipeline for the command line and for Python callers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from xsft.effects.machine import clock
from xsft.effects.runs.runs import Runs
from xsft.states.classify import classify
from xsft.states.folding import Classify, FoldedRun, RowFilter, chosen, fold
from xsft.states.lookup import Read, RunsAnswer, one_run, require_answer, require_names
from xsft.states.model import Observation, Status
from xsft.states.rows import Row


class RunQuery(Struct, frozen=True, kw_only=True):
    """A selection of runs, and how they are read."""

    read: Read
    classify: Classify
    wanted: RowFilter
    now: Callable[[], str]
    keep: Callable[[Sequence[tuple[Observation, Status]]], None] = lambda _seen: None
    """Stores the state, for later calls in which the cluster does not answer."""
    listen: Callable[[Callable[[str], None]], None] = lambda _say: None
    """Registers the function that is called with the clusters that have not answered."""


def query_of(runs: Runs) -> RunQuery:
    """Return the query for everything that `runs` can read."""
    return RunQuery(
        read=runs.read,
        classify=classify,
        wanted=RowFilter(everything=True),
        now=clock.now,
        keep=runs.keep,
        listen=runs.listen,
    )


def look(query: RunQuery) -> tuple[RunsAnswer, tuple[FoldedRun, ...]]:
    """Read the runs now, and return a row for each. Raises Unreachable if nothing could be read."""
    found = query.read()
    require_answer(found)
    rows = fold(found.observations, classify=query.classify, now=query.now())
    query.keep([(one.seen, one.status) for one in rows])
    return found, rows


def look_up(query: RunQuery, name: str) -> FoldedRun:
    """Return the run of that name as it is now. Raises as `look`, and UsageError for a name that no run has."""
    found, rows = look(query)
    return one_run(name, rows, found)


def pick(query: RunQuery, rows: Sequence[FoldedRun], found: RunsAnswer) -> tuple[Row, ...]:
    """Raises UsageError for a name that no run has."""
    require_names(query.wanted.runs, rows, found)
    return there(query, rows)


def there(query: RunQuery, rows: Sequence[FoldedRun]) -> tuple[Row, ...]:
    """Return the rows that the query selects."""
    return tuple(one.row for one in chosen(rows, query.wanted))
