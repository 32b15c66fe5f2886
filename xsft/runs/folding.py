"""Fold the attempts of each run into one row, and select the rows that were asked for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from xsft.base.moments import seconds_between
from xsft.base.state_names import ENDED, RUNNING, STATES, State
from xsft.cluster.observation import Observation, Status
from xsft.runs.rows import Row, created_at, row_of

DAY_S = 24 * 3600.0
"""Runs that ended longer ago are not shown unless requested, and nothing is read of them."""
WEEK_S = 7 * DAY_S
"""The same for runs that were submitted longer ago and are not on their cluster."""


class Classify(Protocol):
    """Return the state of an attempt: `runs.classify.classify`."""

    def __call__(self, seen: Observation) -> Status: ...


class RowFilter(Struct, frozen=True, kw_only=True):
    """The rows to show. None and empty: all."""

    runs: tuple[str, ...] = ()
    """Exact run names, JobSet names or folders of runs on this machine."""
    states: tuple[str, ...] = ()
    """Words of `WORDS`; a row matches any of them."""
    mode: str | None = None
    everything: bool = False
    """Include runs that ended more than a day ago."""


class FoldedRun(Struct, frozen=True, kw_only=True):
    """A row and the observations it was made from."""

    row: Row
    seen: Observation
    """The observation of the attempt that represents the run."""
    status: Status
    attempts: tuple[Observation, ...]
    """The observations of all attempts, the oldest first."""


def fold(observations: Iterable[Observation], *, classify: Classify, now: str) -> tuple[FoldedRun, ...]:
    """Return one row per run, from its newest attempt; active runs first, then the newest first."""
    rows = [_newest(attempts, classify=classify, now=now) for attempts in _runs(observations)]
    newest_first = sorted(rows, key=lambda s: (s.row.created_at or "", s.row.run_name), reverse=True)
    return tuple(sorted(newest_first, key=lambda s: s.row.ended))


def chosen(rows: Iterable[FoldedRun], wanted: RowFilter) -> tuple[FoldedRun, ...]:
    """Return the rows to show. Named runs are shown whatever their age; the other filters apply to all."""
    known = tuple(rows)
    picked = {id(one) for name in wanted.runs for one in named(known, name)}
    asked = (one for one in known if not wanted.runs or id(one) in picked)
    return tuple(one for one in asked if _matches(one.row, wanted))


def named(rows: Iterable[FoldedRun], name: str) -> tuple[FoldedRun, ...]:
    """Return the runs with exactly that name, or the run on this machine with that folder; else those with a JobSet of
    that name."""
    known = tuple(rows)
    runs = tuple(one for one in known if name in (one.row.run_name, folder(one.row)))
    return runs or tuple(one for one in known if any(a.jobset and a.jobset.name == name for a in one.attempts))


def folder(row: Row) -> str | None:
    """Return `<output>/<run name>` of a run on this machine."""
    return f"{row.output.rstrip('/')}/{row.run_name}" if row.on_this_machine and row.output else None


def _matches(row: Row, wanted: RowFilter) -> bool:
    if wanted.states and not any(matches(row.state, word) for word in wanted.states):
        return False
    if wanted.mode and row.mode != wanted.mode:
        return False
    return bool(wanted.runs) or wanted.everything or _recent(row)


def _recent(row: Row) -> bool:
    """Return whether the run is active or ended less than a day ago; if it has no JobSet and nothing is known, whether
    it was submitted this week."""
    if row.state == "unknown" and row.namespace is None:
        return (row.age_s or 0.0) < WEEK_S
    if not row.ended:
        return True
    # all times are from the cluster's clock; an end without a time counts from the start of the run
    lasted = seconds_between(row.created_at, row.ended_at or row.created_at)
    return lasted is None or row.age_s is None or row.age_s - lasted < DAY_S


def _runs(observations: Iterable[Observation]) -> list[list[Observation]]:
    """Group observations by run. Runs with one name on two clusters, in two namespaces or in two outputs on this
    machine, or created by xsft and by another tool, are different runs. An attempt whose JobSet is gone belongs to the
    runs of its name that exist."""
    runs: dict[tuple[str, ...], list[Observation]] = defaultdict(list)
    gone: list[Observation] = []
    for one in observations:
        if one.jobset is None:
            gone.append(one)
            continue
        made_by = "" if one.jobset.ours else one.jobset.name
        runs[(*one.shared_name, one.jobset.namespace, made_by)].append(one)
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key in runs:
        first.setdefault(key[:3], key)
    for one in gone:
        runs[first.setdefault(one.shared_name, one.shared_name)].append(one)
    return list(runs.values())


def _newest(attempts: list[Observation], *, classify: Classify, now: str) -> FoldedRun:
    """Return the attempt that represents the run: one that may be running, else the newest."""
    judged = [(classify(one), one) for one in attempts]
    ordered = sorted(judged, key=lambda pair: (_may_live(*pair), created_at(pair[1]) or ""))
    status, seen = ordered[-1]
    row = row_of(seen, status, now=now, attempts=len(attempts))
    in_turn = sorted(attempts, key=lambda one: created_at(one) or "")
    return FoldedRun(row=row, seen=seen, status=status, attempts=tuple(in_turn))


def _may_live(status: Status, seen: Observation) -> bool:
    """Return whether the attempt may be running: true if its cluster does not answer, false if it ended in any way."""
    if status.state == "unknown":
        return any(one.what == "jobsets" for one in seen.unread)
    return status.state not in ENDED


def matches(state: State, word: str) -> bool:
    """Return whether a filter's word includes this state. Raises KeyError for a word that is not in WORDS."""
    match word:
        case "running":
            return state in RUNNING
        case "active":
            return state not in ENDED  # an `unknown` run may still use slices
        case "ended":
            return state in ENDED
        case _ if word in STATES:
            return state == word
        case _:
            raise KeyError(word)
