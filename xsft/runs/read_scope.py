"""The scope of one read: which runs it covers, and whose progress; each run's within a few reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.base.moments import seconds_between
from xsft.cluster.observation import Observation, RunObject, seconds_since
from xsft.records.index import IndexEntry
from xsft.runs.folding import DAY_S, WEEK_S

EPOCH = "1970-01-01T00:00:00Z"


class ReadLimits(Struct, frozen=True, kw_only=True):
    """The limits of reading the runs' progress."""

    progress_s: float = 3.0
    """Time limit for all of them together; 0: none is read."""
    at_most: int = 40
    """Maximum number of active runs whose progress is read, the newest first."""
    at_least: int = 16
    """How many are waited for if there are more than `at_most`, so that not all can be shown; the others are read only
    in the first `soon_s`.
    """
    soon_s: float = 0.35
    """Seconds since the start of the read in which the others are read too."""
    ended_at_most: int = 20
    """Maximum number of ended runs whose end was not read yet. What is read is saved (`lastknown`), so each read covers
    others.
    """
    gone_at_most: int = 20
    """Maximum number of runs that their cluster no longer has: their records are read each time."""
    starting_at_most: int = 64
    """With more starting JobSets than this, all pending pods are listed instead: a name has up to 40 characters, and
    many servers and proxies limit a URL to 8,000.
    """


class ReadScope(Struct, frozen=True, kw_only=True):
    """The runs that one read covers."""

    names: frozenset[str]
    """Names of runs or JobSets; empty: all."""
    everything: bool
    """Also read the progress of runs that ended long ago."""
    now: str
    limits: ReadLimits = ReadLimits()

    def covers_entry(self, entry: IndexEntry) -> bool:
        """Return whether the run of an index entry is covered: a named run, else one that was submitted recently."""
        if self.names:
            folder = f"{entry.output.rstrip('/')}/{entry.run_name}" if entry.on_this_machine else None
            return bool({entry.run_name, entry.jobset, folder} & self.names)
        age = seconds_between(entry.updated_at, self.now)
        return self.everything or age is None or age < WEEK_S

    def covers_run(self, seen: Observation) -> bool:
        return not self.names or bool(seen.names & self.names)

    def covers_jobset(self, jobset: RunObject) -> bool:
        return not self.names or bool({jobset.name, jobset.run_name} & self.names)

    def covers_progress(self, seen: Observation) -> bool:
        """Return whether the progress is read: not of a run that ended so long ago that it is not shown."""
        if self.names or self.everything or seen.jobset is None or seen.jobset.terminal is None:
            return True
        ends = [c.at for c in seen.jobset.conditions if c.type == seen.jobset.terminal and c.at]
        age = seconds_since(max(ends, default=seen.jobset.created_at), seen, self.now)
        return age is None or age < DAY_S

    def asks_progress(self, seen: Observation) -> bool:
        """Return whether the run's progress has to be read. Of a named run also while some of its pods are not running:
        the pod that prints steps may be.
        """
        named = bool(self.names)
        return self.covers_progress(seen) and seen.progress is None and may_have_progress(seen, partly_up=named)


def was_passed_over(seen: Observation) -> bool:
    """Return whether the run may have more progress than is known, since it was not read."""
    return any(one.passed_over for one in seen.unread)


def lacks_progress(seen: Observation) -> bool:
    """Return whether the run has progress that was not read."""
    return seen.progress is None and may_have_progress(seen)


def may_have_progress(seen: Observation, *, partly_up: bool = False) -> bool:
    """Return whether the trainer can have printed anything: it is running or has run. A run that waits for quota or
    pods has not started. `partly_up`: also if only some pods of a slice may be running.
    """
    if not seen.on_cluster or seen.last_known or any(one.what == "jobsets" for one in seen.unread):
        return False
    jobset = seen.jobset
    if jobset is None or jobset.terminal is not None:
        return True
    if jobset.serves:
        return False  # a server has no steps
    if jobset.suspended:
        return False
    return any(job.ready or job.succeeded or job.failed or (partly_up and job.active) for job in jobset.jobs)


class ReadOrder(Struct, frozen=True, kw_only=True):
    """Whose progress one read asks for, and in which order."""

    asked: tuple[Observation, ...]
    """Observations to read, the most urgent first: the active ones."""
    first: int
    """How many of `asked` are waited for; the others are read only while there is time."""
    left: tuple[Observation, ...]


def order_reads(found: Sequence[Observation], *, scope: ReadScope) -> ReadOrder:
    """Return the observations whose progress is read.

    The newest active runs; of the ended runs the newest, and some of the others, different ones at each read, so that
    an end that cannot be read does not take a place for good. Runs whose JobSet is gone have their own places. If there
    are more active runs than can be read, only the newest are waited for: the table cannot be complete then. Runs that
    are named are all read.
    """
    limits, newest = scope.limits, sorted(found, key=_begin_time, reverse=True)
    ask = [one for one in newest if limits.progress_s > 0 and scope.asks_progress(one)]
    there = [one for one in ask if one.jobset is not None]
    active = [one for one in there if one.jobset and one.jobset.terminal is None]
    ended = [one for one in there if one.jobset and one.jobset.terminal is not None]
    gone = [one for one in ask if one.jobset is None]
    turn = int(seconds_between(EPOCH, scope.now) or 0)
    over = _take_in_turn(ended, at_most=limits.ended_at_most, turn=turn)
    most = len(active) if scope.names else limits.at_most
    sure = most if len(active) <= most else min(limits.at_least, most)
    first = (*active[:sure], *over, *gone[: limits.gone_at_most])
    asked = (*first, *active[sure:most])
    chosen = set(map(id, asked))
    return ReadOrder(asked=asked, first=len(first), left=tuple(one for one in newest if id(one) not in chosen))


def _take_in_turn(ended: Sequence[Observation], *, at_most: int, turn: int) -> tuple[Observation, ...]:
    """Return the newest runs for half of the places; the other half rotates through the rest."""
    first, rest = ended[: (at_most + 1) // 2], ended[(at_most + 1) // 2 :]
    start = (turn + turn // len(rest)) % len(rest) if rest else 0  # also rotates if reads are a multiple of it apart
    return (*first, *(*rest[start:], *rest[:start])[: at_most // 2])


def _begin_time(seen: Observation) -> str:
    return seen.jobset.created_at if seen.jobset else (seen.record.started_at or "" if seen.record else "")
