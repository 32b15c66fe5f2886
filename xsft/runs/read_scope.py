"""The scope of one read: which runs it covers, and whose progress. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.base.amounts import seconds_between
from xsft.cluster.observation import Observation, RunObject
from xsft.records.index import IndexEntry
from xsft.runs.lookup import DAY_S, WEEK_S


class ReadLimits(Struct, frozen=True, kw_only=True):
    """The limits of reading the runs' progress."""

    progress_s: float = 3.0
    """Time limit for all of a namespace together; 0: none is read."""
    at_most: int = 40
    """Maximum number of active runs whose progress is read."""
    if_more: int = 16
    """The number of these, the newest, if there are more than `at_most`: not all can be shown then."""
    ended_at_most: int = 20
    """Maximum number of ended runs whose end was not read yet, the newest. What is read is saved (`lastknown`)."""
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
    every_pod: bool = False
    """Also read the pods of all hosts."""
    limits: ReadLimits = ReadLimits()

    def covers_entry(self, entry: IndexEntry) -> bool:
        """Return whether the run of an index entry is covered: a named run, else one that was submitted recently."""
        if self.names:
            folder = f"{entry.output.rstrip('/')}/{entry.run_name}" if entry.on_this_machine else None
            return bool({entry.run_name, entry.jobset, folder} & self.names)
        age = seconds_between(entry.updated_at, self.now)
        return self.everything or age is None or age < WEEK_S

    def covers_jobset(self, jobset: RunObject) -> bool:
        return self.covers_name(jobset.name) or self.covers_name(jobset.run_name)

    def covers_name(self, name: str) -> bool:
        return not self.names or name in self.names

    def covers_progress(self, observation: Observation) -> bool:
        """Return whether the progress is read: not of a run that ended so long ago that it is not shown."""
        if self.names or self.everything or observation.jobset is None or observation.jobset.terminal is None:
            return True
        ends = [c.at for c in observation.jobset.conditions if c.type == observation.jobset.terminal and c.at]
        age = seconds_between(max(ends, default=observation.jobset.created_at), observation.observed_at)
        return age is None or age < DAY_S

    def asks_progress(self, observation: Observation) -> bool:
        """Return whether the run's progress has to be read. Of a named run also while some of its pods are not running:
        the pod that prints steps may be.
        """
        named = bool(self.names)
        return (
            self.covers_progress(observation)
            and observation.progress is None
            and may_have_progress(observation, partly_up=named)
        )


def was_passed_over(observation: Observation) -> bool:
    """Return whether the run may have more progress than is known, since it was not read."""
    return any(unread.passed_over for unread in observation.unread)


def lacks_progress(observation: Observation) -> bool:
    """Return whether the run has progress that was not read."""
    return observation.progress is None and may_have_progress(observation)


def may_have_progress(observation: Observation, *, partly_up: bool = False) -> bool:
    """Return whether the trainer can have printed anything: it is running or has run. A run that waits for quota or
    pods has not started. `partly_up`: also if only some pods of a slice may be running.
    """
    if (
        not observation.on_cluster
        or observation.last_known
        or any(unread.what == "jobsets" for unread in observation.unread)
    ):
        return False
    jobset = observation.jobset
    if jobset is None or jobset.terminal is not None:
        return True
    if jobset.serves:
        return False  # a server has no steps
    if jobset.suspended:
        return False
    return any(job.ready or job.succeeded or job.failed or (partly_up and job.active) for job in jobset.jobs)


class ChosenReads(Struct, frozen=True, kw_only=True):
    """The runs whose progress one read asks for, and the others."""

    asked: tuple[Observation, ...]
    """The most urgent first: the active ones."""
    others: tuple[Observation, ...]


def choose_reads(rows: Sequence[Observation], *, scope: ReadScope) -> ChosenReads:
    """Choose the newest active runs, the newest ended runs, and the newest whose JobSet is gone, each up to its limit;
    all runs that are named, and all ended ones if everything is asked for.
    """
    limits = scope.limits
    newest = sorted(rows, key=_begin_time, reverse=True)
    candidates = [row for row in newest if limits.progress_s > 0 and scope.asks_progress(row)]
    active = [row for row in candidates if row.jobset and row.jobset.terminal is None]
    ended = [row for row in candidates if row.jobset and row.jobset.terminal is not None]
    gone = [row for row in candidates if row.jobset is None]
    if not scope.names and len(active) > limits.at_most:
        active = active[: min(limits.if_more, limits.at_most)]
    if not scope.names and not scope.everything:
        ended = ended[: limits.ended_at_most]
    first_reads = (*active, *ended, *gone[: limits.gone_at_most])
    chosen = {id(row) for row in first_reads}
    return ChosenReads(asked=first_reads, others=tuple(row for row in newest if id(row) not in chosen))


def _begin_time(observation: Observation) -> str:
    if observation.jobset:
        return observation.jobset.created_at
    return (observation.record and observation.record.started_at) or ""
