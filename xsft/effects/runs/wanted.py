"""What is read at a look: which runs, and whose progress. Pure."""

from __future__ import annotations

from msgspec import Struct

from xsft.effects.records.index import IndexEntry
from xsft.states.model import JobSet, Observation, seconds_since
from xsft.states.moments import seconds_between

NOT_READ = "not read: the time for it was up"
NOT_ASKED = "not read: others were before it"
RECENT_S = 24 * 3600.0
"""What ended longer ago is not shown unless it is asked for, so nothing is read of it."""
LATELY_S = 7 * 24 * 3600.0
"""What was submitted from here longer ago, and is not on its cluster, is not looked for unless it is asked for."""


class Effort(Struct, frozen=True, kw_only=True):
    """How much is read of the runs' progress."""

    progress_s: float = 3.0
    """All of them together; 0: none is read."""
    at_most: int = 40
    """Active runs whose progress is read, the newest first."""
    at_least: int = 16
    """Of those where there are more than `at_most`, so that not all can be shown: the others only while the look is
    young.
    """
    soon_s: float = 0.35
    """How long a look is young."""
    ended_at_most: int = 20
    """Runs that are over and whose end nobody has read yet: what is read is remembered (`lastknown`), so that each look
    has others.
    """
    gone_at_most: int = 20
    """Runs that their cluster has forgotten: their records are read at every look."""


class Wanted(Struct, frozen=True, kw_only=True):
    names: frozenset[str]
    """Of runs or JobSets; none: all."""
    everything: bool
    """Also the progress of what ended long ago."""
    now: str
    effort: Effort = Effort()

    def entry(self, entry: IndexEntry) -> bool:
        """Of the index: what is named, else what was submitted lately."""
        if self.names:
            folder = f"{entry.output.rstrip('/')}/{entry.run_name}" if entry.on_this_machine else None
            return bool({entry.run_name, entry.jobset, folder} & self.names)
        age = seconds_between(entry.updated_at, self.now)
        return self.everything or age is None or age < LATELY_S

    def run(self, seen: Observation) -> bool:
        named = {seen.run_name, seen.jobset.name if seen.jobset else None} & self.names
        return bool(named) or not self.names

    def jobset(self, jobset: JobSet) -> bool:
        return not self.names or bool({jobset.name, jobset.run_name} & self.names)

    def progress(self, seen: Observation) -> bool:
        """Not of what ended so long ago that nobody is shown it."""
        if self.names or self.everything or seen.jobset is None or seen.jobset.terminal is None:
            return True
        ends = [c.at for c in seen.jobset.conditions if c.type == seen.jobset.terminal and c.at]
        age = seconds_since(max(ends, default=seen.jobset.created_at), seen, self.now)
        return age is None or age < RECENT_S


def passed_over(seen: Observation) -> bool:
    """It may have told more than is known of it, had it been asked."""
    return any(one.why in (NOT_READ, NOT_ASKED) for one in seen.unread)


def untold(seen: Observation) -> bool:
    """It has something to tell, and nobody has read it."""
    return seen.progress is None and tells(seen)


def tells(seen: Observation) -> bool:
    """Whether its trainer can have said anything: it runs or has run. What waits for quota or pods has not begun."""
    if not seen.on_cluster or seen.last_known or any(one.what == "jobsets" for one in seen.unread):
        return False
    jobset = seen.jobset
    if jobset is None or jobset.terminal is not None:
        return True
    return not jobset.suspended and any(job.ready or job.succeeded or job.failed for job in jobset.jobs)
