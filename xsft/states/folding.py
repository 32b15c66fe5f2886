"""From observations to rows: the attempts of a run become one row, and what was asked for is picked. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from xsft.states.filters import matches
from xsft.states.model import ENDED, Observation, Status
from xsft.states.moments import seconds_between
from xsft.states.rows import Row, created_at, row_of

DAY_S = 24 * 3600.0
WEEK_S = 7 * DAY_S


class Classify(Protocol):
    """`states.classify.classify`, or a test's."""

    def __call__(self, seen: Observation, *, now: str) -> Status: ...


class Wanted(Struct, frozen=True, kw_only=True):
    """Which rows are shown. None and empty: all."""

    runs: tuple[str, ...] = ()
    """Exact run names, JobSet names or folders of runs on this machine."""
    states: tuple[str, ...] = ()
    """Words of `filters.WORDS`; any of them."""
    mode: str | None = None
    everything: bool = False
    """Also what ended more than a day ago."""


class Seen(Struct, frozen=True, kw_only=True):
    """A row and what it was made of."""

    row: Row
    seen: Observation
    """Of the attempt that stands for the run."""
    status: Status
    attempts: tuple[Observation, ...]
    """All of them, the oldest first."""


def fold(observations: Iterable[Observation], *, classify: Classify, now: str) -> tuple[Seen, ...]:
    """One per run, of its newest attempt; active runs first, then the newest first."""
    return fold_parts((observations,), classify=classify, now=now)


def fold_parts(parts: Iterable[Iterable[Observation]], *, classify: Classify, now: str) -> tuple[Seen, ...]:
    """As `fold` of all of them, each part before the next one is asked for. `parts`: whole runs, by `name_of`."""
    rows = [_newest(attempts, classify=classify, now=now) for part in parts for attempts in _runs(part)]
    newest_first = sorted(rows, key=lambda s: (s.row.created_at or "", s.row.run_name), reverse=True)
    return tuple(sorted(newest_first, key=lambda s: s.row.ended))


def chosen(rows: Iterable[Seen], wanted: Wanted) -> tuple[Seen, ...]:
    """Runs that are named are shown whatever their age; the other filters hold for all."""
    known = tuple(rows)
    picked = {id(one) for name in wanted.runs for one in named(known, name)}
    asked = (one for one in known if not wanted.runs or id(one) in picked)
    return tuple(one for one in asked if _matches(one.row, wanted))


def named(rows: Iterable[Seen], name: str) -> tuple[Seen, ...]:
    """Runs that are called exactly that, or the one on this machine that has that folder; else those with a JobSet
    that is.
    """
    known = tuple(rows)
    runs = tuple(one for one in known if name in (one.row.run_name, folder(one.row)))
    return runs or tuple(one for one in known if any(a.jobset and a.jobset.name == name for a in one.attempts))


def folder(row: Row) -> str | None:
    """`<output>/<run name>` of a run on this machine."""
    return f"{row.output.rstrip('/')}/{row.run_name}" if row.on_this_machine and row.output else None


def _matches(row: Row, wanted: Wanted) -> bool:
    if wanted.states and not any(matches(row.state, word) for word in wanted.states):
        return False
    if wanted.mode and row.mode != wanted.mode:
        return False
    return bool(wanted.runs) or wanted.everything or _recent(row)


def _recent(row: Row) -> bool:
    """Active, or ended less than a day ago; of one without a JobSet of which nothing is known, submitted this week."""
    if row.state == "unknown" and row.namespace is None:
        return (row.age_s or 0.0) < WEEK_S
    if not row.ended:
        return True
    # all by the cluster's clock; an end whose time nobody wrote counts from the beginning of the run
    lasted = seconds_between(row.created_at, row.ended_at or row.created_at)
    return lasted is None or row.age_s is None or row.age_s - lasted < DAY_S


def _runs(observations: Iterable[Observation]) -> list[list[Observation]]:
    """Runs of one name on two clusters, in two namespaces, in two outputs on this machine, or made by xsft and by
    somebody else, are not one run. An attempt whose JobSet is gone goes with those of its name that are there.
    """
    runs: dict[tuple[str, ...], list[Observation]] = defaultdict(list)
    gone: list[Observation] = []
    for one in observations:
        if one.jobset is None:
            gone.append(one)
            continue
        made_by = "" if one.jobset.ours else one.jobset.name
        runs[(*name_of(one), one.jobset.namespace, made_by)].append(one)
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key in runs:
        first.setdefault(key[:3], key)
    for one in gone:
        runs[first.setdefault(name_of(one), name_of(one))].append(one)
    return list(runs.values())


def name_of(seen: Observation) -> tuple[str, str, str]:
    """Attempts of one run have one name; not all that have one are of one run."""
    return (seen.target, seen.cluster or seen.output or "", seen.run_name)


def _newest(attempts: list[Observation], *, classify: Classify, now: str) -> Seen:
    """An attempt that may live stands for the run whatever its age; else the newest does."""
    judged = [(classify(one, now=now), one) for one in attempts]
    ordered = sorted(judged, key=lambda pair: (_may_live(*pair), created_at(pair[1]) or ""))
    status, seen = ordered[-1]
    row = row_of(seen, status, now=now, attempts=len(attempts))
    in_turn = sorted(attempts, key=lambda one: created_at(one) or "")
    return Seen(row=row, seen=seen, status=status, attempts=tuple(in_turn))


def _may_live(status: Status, seen: Observation) -> bool:
    """What is over does not, though nothing tells how it ended; where the cluster is silent, it may."""
    if status.state == "unknown":
        return any(one.what == "jobsets" for one in seen.unread)
    return status.state not in ENDED
