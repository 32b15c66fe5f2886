"""Whose progress is read at a look: not everybody's, and everybody's in time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from xsft.effects.runs.wanted import Wanted, untold
from xsft.states.model import Observation
from xsft.states.moments import seconds_between

EPOCH = "1970-01-01T00:00:00Z"


class Turns(Struct, frozen=True, kw_only=True):
    asked: tuple[Observation, ...]
    """Those whose time is most precious first: the active ones."""
    first: int
    """So many of those are waited for; the others are read while there is time."""
    left: tuple[Observation, ...]


def turns(found: Iterable[Observation], *, wanted: Wanted) -> Turns:
    """The newest active runs; of those that are over, the newest and some of the others, others at every look: an end
    that cannot be read takes no place for good. Those whose JobSet is gone have places of their own. Where there are
    more active ones than are read at all, only the newest are waited for: the table cannot be whole. Of those that are
    named all are.
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
    """Half of the places are the newest ones'; the other half goes round."""
    first, rest = ended[: (at_most + 1) // 2], ended[(at_most + 1) // 2 :]
    start = (turn + turn // len(rest)) % len(rest) if rest else 0  # also where looks are a multiple of it apart
    return (*first, *(*rest[start:], *rest[:start])[: at_most // 2])


def _begun(seen: Observation) -> str:
    return seen.jobset.created_at if seen.jobset else (seen.record.started_at or "" if seen.record else "")
