"""The end of a run whose log was followed; the log itself seldom shows it."""

from __future__ import annotations

from collections.abc import Callable

from xsft.commands.status_table import change
from xsft.errors import XsftError
from xsft.run_query import RunQuery, look
from xsft.states.model import Observation
from xsft.states.names import ENDED
from xsft.states.rows import Row, row_of

LOOKS, AGAIN_S = 3, 1.0
"""Number of reads and the seconds between them: a cancel is recorded a moment after its JobSet is gone, and the last
step may be read after the log's end."""


def end_text(seen: Observation, *, query: RunQuery, pause: Callable[[float], None]) -> str | None:
    """Return how the followed attempt ended; None if no cluster answers, for the log was shown anyway."""
    row = None
    for again in range(LOOKS):
        if again:
            pause(AGAIN_S)
        row = _row(seen, query) or row
        if row is not None and row.state in ENDED:
            break
    if row is None:
        return None
    why = "" if row.state in ("succeeded", "cancelled") else f": xsft why {row.run_name}"
    return f"-- {change(row)}{why} --"


def _row(seen: Observation, query: RunQuery) -> Row | None:
    try:
        _, rows = look(query)
    except XsftError:
        return None
    now = query.now()
    found = (one for hit in rows for one in hit.attempts if _is_it(one, seen))
    return next((row_of(one, query.classify(one, now=now), now=now) for one in found), None)


def _is_it(one: Observation, seen: Observation) -> bool:
    if seen.jobset is None:
        return (one.target, one.run_name) == (seen.target, seen.run_name)
    uid = one.jobset.uid if one.jobset else (one.record.uid if one.record else None)
    return uid == seen.jobset.uid
