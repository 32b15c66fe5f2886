"""Which runs are asked about, how they are read and judged, and the rows that come of it.

One pipeline for the command line and for Python callers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from xsft.effects.machine import clock
from xsft.effects.runs.runs import Runs

if TYPE_CHECKING:
    from xsft.states.folding import Classify, Seen, Wanted
    from xsft.states.lookup import Read, Reading
    from xsft.states.model import Observation, Status
    from xsft.states.rows import Row


class RunQuery(Struct, frozen=True, kw_only=True):
    """What is shown, and how it is read."""

    read: Read
    classify: Classify
    wanted: Wanted
    now: Callable[[], str]
    keep: Callable[[Sequence[tuple[Observation, Status]]], None] = lambda _seen: None
    """Remembers it for when a cluster does not answer."""
    listen: Callable[[Callable[[str], None]], None] = lambda _say: None
    """Takes who hears which cluster is waited for."""


def query_of(runs: Runs) -> RunQuery:
    """All that can be seen there."""
    from xsft.states.classify import classify  # loaded while the clusters answer
    from xsft.states.folding import Wanted

    return RunQuery(
        read=runs.read,
        classify=classify,
        wanted=Wanted(everything=True),
        now=clock.now,
        keep=runs.keep,
        listen=runs.listen,
    )


def look(query: RunQuery) -> tuple[Reading, tuple[Seen, ...]]:
    """What was read now, and a row for every run in it. Raises Unreachable where nothing could be read."""
    from xsft.states.folding import fold_parts
    from xsft.states.lookup import require_answer

    found = query.read()
    require_answer(found)
    rows = fold_parts(found.parts(), classify=query.classify, now=query.now())
    query.keep([(one.seen, one.status) for one in rows])
    return found, rows


def pick(query: RunQuery, rows: Sequence[Seen], found: Reading) -> tuple[Row, ...]:
    """Raises UsageError for a name that no run has."""
    from xsft.states.lookup import require_names

    require_names(query.wanted.runs, rows, found)
    return there(query, rows)


def there(query: RunQuery, rows: Sequence[Seen]) -> tuple[Row, ...]:
    """What is wanted of what is there."""
    from xsft.states.folding import chosen

    return tuple(one.row for one in chosen(rows, query.wanted))
