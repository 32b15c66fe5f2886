"""What is asked of clusters: begun at once, all of them together, and waited for where it is needed.

Apart from what becomes of the answers, so that who looks has asked before it loads the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct, field
from msgspec.structs import replace

from xsft.effects.cluster.cluster import Cluster
from xsft.effects.cluster.lists import Lists, ask_lists
from xsft.effects.machine import clock
from xsft.effects.machine.parallel import Started, start
from xsft.effects.records.index import Index, IndexEntry
from xsft.effects.records.records import RecordStore
from xsft.effects.runs.first_pods import FirstPods, few_starting
from xsft.effects.runs.forgotten import forgotten, went_to
from xsft.effects.runs.lastknown import Memory, forget, recall
from xsft.effects.runs.observe import observations_of, unread
from xsft.effects.runs.patience import Pulse, Say, wait_for
from xsft.effects.runs.turns import turns
from xsft.effects.runs.wanted import Effort, Wanted
from xsft.errors import XsftError
from xsft.problems import Problem
from xsft.reading.lastknown_line import Known
from xsft.states.model import JobSet, Observation

GONE = frozenset({"context-unknown", "cluster-missing"})
"""Ids of failures to find a cluster at all. Of one that only old runs name this is told beside those runs, which say so
themselves, and not as a warning at every look.
"""


class Target(Struct, frozen=True, kw_only=True):
    """One namespace of one cluster."""

    name: str
    """The cluster as the user names it."""
    namespace: str
    connect: Callable[[], Cluster]
    """Raises XsftError."""
    named: bool = True
    """As `Source.named`."""
    lists: Callable[[Cluster], Lists] | None = None
    """Of that cluster and namespace; None: they are asked for when it is connected."""


class Answer(Struct, frozen=True, kw_only=True):
    """Of one target."""

    observations: tuple[Observation, ...]
    cluster: Cluster | None = None
    problem: Problem | None = None
    known: Mapping[str, Known] = field(default_factory=dict)
    first_pods: FirstPods = FirstPods()


class Asked(Struct, frozen=True, kw_only=True):
    """A question to one target, under way."""

    target: Target
    started: Started[Answer]
    pulse: Pulse
    silent: Callable[[XsftError], Answer]
    """What is known without it."""

    def answer(self, *, alone: bool, say: Say) -> Answer:
        """`alone`: no other cluster was asked."""
        try:
            return wait_for(self.started, self.pulse, name=self.target.name, alone=alone, say=say)
        except XsftError as failed:
            return self.silent(failed)


class Look(Struct, frozen=True, kw_only=True):
    """One look at all of them, begun."""

    targets: tuple[Target, ...]
    wanted: Wanted
    index: Index
    asked: tuple[Asked, ...]
    begun_at: float
    """`clock.monotonic`."""

    def answers(self, *, say: Say) -> list[Answer]:
        """One per target; `say` hears who is waited for."""
        alone = len({one.name for one in self.targets}) == 1
        return [one.answer(alone=alone, say=say) for one in self.asked]


def begin(
    targets: Sequence[Target],
    *,
    store: RecordStore,
    names: Sequence[str] = (),
    everything: bool = False,
    effort: Effort | None = None,
) -> Look:
    """`names`: exact names of runs or JobSets, none: all. `everything`: also the progress of what ended long ago."""
    begun_at, index = clock.monotonic(), store.local_index()
    wanted = Wanted(names=frozenset(names), everything=everything, effort=effort or Effort(), now=store.now())
    asked = tuple(_ask(one, store=store, entries=index.entries, wanted=wanted) for one in targets)
    return Look(targets=tuple(targets), wanted=wanted, index=index, asked=asked, begun_at=begun_at)


def _ask(target: Target, *, store: RecordStore, entries: Sequence[IndexEntry], wanted: Wanted) -> Asked:
    pulse = Pulse()
    before = cache(partial(_before, target, store=store, entries=entries, wanted=wanted))
    return Asked(
        target=target,
        started=start(partial(_answer, target, pulse, store=store, wanted=wanted, before=before)),
        pulse=pulse,
        silent=partial(_silent, target, before=before, wanted=wanted),
    )


Before = tuple[Memory, tuple[IndexEntry, ...]]
"""What was known of the target's runs last, and what was submitted there from here."""


def _before(target: Target, *, store: RecordStore, entries: Sequence[IndexEntry], wanted: Wanted) -> Before:
    known = recall(store.state, cluster=target.name, namespace=target.namespace)
    went_there = (one for one in entries if went_to(one, cluster=target.name, namespace=target.namespace))
    return known, tuple(one for one in went_there if wanted.entry(one))


def _answer(
    target: Target, pulse: Pulse, *, store: RecordStore, wanted: Wanted, before: Callable[[], Before]
) -> Answer:
    """Raises XsftError where the target does not answer."""
    known, submitted = before()
    cluster = target.connect()
    pulse.connected(cluster)
    lists = target.lists(cluster) if target.lists else ask_lists(cluster, namespace=target.namespace)
    jobsets = lists.jobsets.result()
    starting = few_starting(jobsets, wanted=wanted)
    names = (*_read_next(jobsets, known=known, wanted=wanted), *(starting or ()))
    first_pods = FirstPods().also_of(names, reads=lambda: cluster.reads, namespace=lists.namespace)
    tell = None if starting is None else first_pods.lists if starting else ()
    found = observations_of(lists, first_pods=tell, name=target.name, now=wanted.now)
    uids = {seen.jobset.uid for seen in found if seen.jobset}
    if not pulse.left:  # else somebody has told already what was known without it
        forget(store.state, cluster=target.name, namespace=target.namespace, there=uids, now=wanted.now, known=known)
    there = {seen.jobset.name: seen.jobset for seen in found if seen.jobset}
    gone = (one for one in submitted if one.uid not in uids and not _bears_its_name(one, there.get(one.jobset or "")))
    lost = (forgotten(one, cluster=target.name, known=known, now=wanted.now) for one in gone)
    seen = (_with_known(one, known) for one in found if wanted.run(one))
    return Answer(observations=(*seen, *lost), cluster=cluster, known=known, first_pods=first_pods)


def _read_next(jobsets: Sequence[JobSet], *, known: Mapping[str, Known], wanted: Wanted) -> list[str]:
    """Names of the JobSets whose progress will be read, as far as the JobSets alone tell."""
    bare = (
        Observation(run_name=one.run_name, target="xpk", observed_at=wanted.now, jobset=one)
        for one in jobsets
        if one.terminal or not one.suspended
    )
    asked = turns((_with_known(one, known) for one in bare if wanted.run(one)), wanted=wanted).asked
    return [one.jobset.name for one in asked if one.jobset]


def _bears_its_name(entry: IndexEntry, held: JobSet | None) -> bool:
    """Another attempt under the same name; not that of a run which is itself named `run-2`."""
    return held is not None and (held.run_name == entry.run_name or (not held.ours and entry.uid is None))


def _silent(target: Target, failed: XsftError, *, before: Callable[[], Before], wanted: Wanted) -> Answer:
    """What was known last, and what was submitted from here since."""
    known, submitted = before()
    missing = (unread("jobsets", failed),)
    there = {uid: one for uid, one in known.items() if not one.gone}
    older = [one.observation(target.name, unread=missing) for one in there.values()]
    since = [
        replace(forgotten(one, cluster=target.name, known=known, now=wanted.now), unread=missing)
        for one in submitted
        if one.uid not in there
    ]
    (first, *_) = failed.problems
    seen = (*(one for one in older if wanted.run(one)), *since)
    told = target.named or first.id not in GONE
    return Answer(observations=seen, problem=first.as_warning_of(target.name) if told else None)


def _with_known(seen: Observation, known: Mapping[str, Known]) -> Observation:
    """What a run said before its end does not change after it: it is not read again. Of one that was restarted, how it
    was before.
    """
    jobset = seen.jobset
    if jobset is None or (jobset.terminal is None and not jobset.restarts):
        return seen
    last = known.get(jobset.uid)
    if last is None:
        return seen
    if jobset.terminal is None:
        return replace(seen, before=last.as_before() if last.jobset.restarts < jobset.restarts else last.before)
    seen = replace(seen, before=last.before)
    if not last.ended:
        return seen
    return replace(seen, progress=None if last.unheard else last.progress, known_end=last.status)
