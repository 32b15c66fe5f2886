"""Clues for the rules of `why` if there is no other: the state itself, and a silent log. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xsft.states.evidence import Evidence, Log
from xsft.states.failing import place
from xsft.states.reasons import BY_SLUG
from xsft.states.rule import Clue
from xsft.states.worth import ENOUGH, Worthless, is_worthless


def reason(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason`, for rules that need nothing else."""
    yield Clue(text=f"{evidence.status.state} {evidence.status.reason}", quoted=())


def silence(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason` and the worker whose log became silent first: the others wait for it in a collective."""
    logs = [log for log in evidence.logs or () if log.said_at]
    first: Log | None = min(logs, key=lambda log: (log.said_at or "", log.slice_index, log.host), default=None)
    yield Clue(
        text=f"{evidence.status.state} {evidence.status.reason}",
        where=place(first) if first else "",
        quoted=first.lines[-2:] if first else (),
        values={"first": f"{place(first)} stopped printing first." if first and len(logs) > 1 else ""},
    )


def worth(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason` and the last step's line that shows it."""
    status = evidence.status
    line, where = _last_line(evidence, _SHOWS[status.reason]) if is_worthless(status.reason) else ("", "")
    yield Clue(text=f"{status.state} {status.reason}", where=where, quoted=(line,) if line else ())


def zero_loss(evidence: Evidence) -> Iterator[Clue]:
    """Yield `zero` if the loss is 0.000 repeatedly."""
    progress = evidence.seen.progress
    if progress is not None and progress.zero_loss_steps >= ENOUGH:
        line, where = _last_line(evidence, _SHOWS_ZERO)
        yield Clue(text="zero", where=where, quoted=(line,) if line else ())


def recorded(evidence: Evidence) -> Iterator[Clue]:
    """Yield the record's text, if the state comes from the record."""
    record = evidence.seen.record
    if record and record.reason and evidence.status.evidence == ("record",):
        yield Clue(text=record.reason, where="record", quoted=(), values={"said": record.reason})


def meaning(evidence: Evidence) -> Iterator[Clue]:
    """Yield the reason's meaning from the table of reasons."""
    known = BY_SLUG.get(evidence.status.reason)
    yield Clue(text="state", quoted=(), values={"meaning": known.meaning if known else evidence.status.reason})


_SHOWS: dict[Worthless, re.Pattern[str]] = {
    "no-target-tokens": re.compile(r"completed .*step: .*total_weights: 0(\.0*)?,"),
    "loss-not-finite": re.compile(r"completed .*step: .*(?<![_a-z])loss: [-+]?(nan|inf)"),
}
_SHOWS_ZERO = re.compile(r"completed .*step: .*(?<![_a-z])loss: 0\.0*,")
"""The line of such a step; source: maxtext@0.2.5 common/metric_logger.py."""


def _last_line(evidence: Evidence, shows: re.Pattern[str]) -> tuple[str, str]:
    """Return the last line and its process; empty if no log has a line."""
    found = ((line, place(log)) for log in evidence.logs or () for line in reversed(log.lines))
    return next(((line, where) for line, where in found if shows.search(line)), ("", ""))


def unread(evidence: Evidence) -> Iterator[Clue]:
    """Yield `what: why` of each source that could not be read."""
    for one in evidence.seen.unread:
        yield Clue(text=f"{one.what}: {one.why}")
