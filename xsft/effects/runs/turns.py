"""Which runs' progress is read this time: not of all runs at once, but of each run within a few reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.effects.runs.wanted import Wanted, untold
from xsft.states.model import Observation
from xsft.states.moments import seconds_between

EPOCH = "1970-01-01T00:00:00Z"


class Turns(Struct, frozen=True, kw_only=True):
    asked: tuple[Observation, ...]
    """Observations to read, the most urgent first: the active ones."""
    first: int
    """How many of `asked` are waited for; the others are read only while there is time."""
    left: tuple[Observation, ...]


def turns(found: Sequence[Observation], *, wanted: Wanted) -> Turns:
    """Return which observations' progress is read.

    The newest active runs; of the ended runs the newest, and some of the others, different ones at each read, so that
    an end that cannot be read does not take a place for good. Runs whose JobSet is gone have their own places. If there
    are more active runs than can be read, only the newest are waited for: the table cannot be complete then. Runs that
    are named are all read.
    """
    effort, newest = wanted.effort, sorted(found, key=_begun, reverse=True)
    ask = [one for one in newest if effort.progress_s > 0 and wanted.progress(one) and untold(one)]
    there = [one for one in ask if one.jobset is not None]
    active = [one for one in there if one.jobset and one.jobset.terminal is None]
    ended = [one for one in there if one.jobset and one.jobset.terminal is not None]
    gone = [one for one in ask if one.jobset is None]
    turn = int(seconds_between(EPOCH, wanted.now) or 0)
    over = _in_turn(ended, at_most=effort.ended_at_most, turn=turn)
    most = len(active) if wanted.names else effort.at_most
    sure = most if len(active) <= most else min(effort.at_least, most)
    first = (*active[:sure], *over, *gone[: effort.gone_at_most])
    asked = (*first, *active[sure:most])
    chosen = set(map(id, asked))
    return Turns(asked=asked, first=len(first), left=tuple(one for one in newest if id(one) not in chosen))


def _in_turn(ended: Sequence[Observation], *, at_most: int, turn: int) -> tuple[Observation, ...]:
    """Return the newest runs for half of the places; the other half rotates through the rest."""
    first, rest = ended[: (at_most + 1) // 2], ended[(at_most + 1) // 2 :]
    start = (turn + turn // len(rest)) % len(rest) if rest else 0  # also rotates if reads are a multiple of it apart
    return (*first, *(*rest[start:], *rest[:start])[: at_most // 2])


def _begun(seen: Observation) -> str:
    return seen.jobset.created_at if seen.jobset else (seen.record.started_at or "" if seen.record else "")
