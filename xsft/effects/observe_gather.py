"""All runs at once: every cluster that was asked for, this machine, and what both have forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from xsft.effects.cluster import Cluster
from xsft.effects.lastknown import forget, recall
from xsft.effects.lastknown_line import Known
from xsft.effects.observe import observe_cluster, unread
from xsft.effects.observe_forgotten import cluster_of, forgotten, recorded_of, went_to
from xsft.effects.observe_local import observe_local
from xsft.effects.parallel import start
from xsft.effects.progress import Source, not_asked, read_progress, tells
from xsft.effects.recordindex import IndexEntry
from xsft.effects.records import RecordStore
from xsft.errors import XsftError
from xsft.problems import Problem
from xsft.states.model import Observation, Recorded
from xsft.states.moments import seconds_between

RECENT_S = 24 * 3600.0
"""What ended longer ago is not shown unless it is asked for, so nothing is read of it."""
LATELY_S = 7 * 24 * 3600.0
"""What was submitted from here longer ago, and is not on its cluster, is not looked for unless it is asked for."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One namespace of one cluster."""

    name: str
    """The cluster as the user names it."""
    namespace: str
    connect: Callable[[], Cluster]
    """Raises XsftError."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is read of the runs' progress."""

    progress_s: float = 3.0
    """All of them together; 0: none is read."""
    at_most: int = 40
    """Active runs whose progress is read, the newest first."""
    ended_at_most: int = 20
    """Runs that are over and whose last step nobody has read yet: an end that is known is remembered (`lastknown`), so
    that each look proves some more.
    """


@dataclass(frozen=True, kw_only=True)
class Gathered:
    observations: tuple[Observation, ...]
    problems: tuple[Problem, ...] = ()
    """Clusters that did not answer: warnings."""
    answered: bool = True
    """Anything could be read at all."""
    whole: bool = True
    """Everything that was asked answered."""


def gather_runs(
    targets: Sequence[Target],
    *,
    store: RecordStore,
    names: Sequence[str] = (),
    everything: bool = False,
    local: bool = True,
    effort: Effort | None = None,
) -> Gathered:
    """One Observation per attempt of a run; `names`: exact names of runs or JobSets, none: all. Never raises.

    `everything`: also the progress of what ended long ago. `local`: also the runs on this machine. A cluster that does
    not answer gives what was last known of its runs, if anything, and a problem.
    """
    now, index = store.now(), store.local_index()
    wanted = Wanted(names=frozenset(names), everything=everything, now=now)
    asked = [start(partial(_asked, one, store=store, entries=index.entries, wanted=wanted)) for one in targets]
    here = observe_local((one for one in index.entries if wanted.entry(one)), now=now) if local else ()
    answers = [one.result() for one in asked]
    found = tuple(seen for answer in answers for seen in answer.observations)
    silent = tuple(answer.problem for answer in answers if answer.problem is not None)
    clusters = {one.name: answer.cluster for one, answer in zip(targets, answers, strict=True) if answer.cluster}
    source = _source(clusters, store=store, entries=index.entries)
    read = _with_progress(found, source=source, wanted=wanted, effort=effort or Effort())
    return Gathered(
        observations=(*(_with_last_words(one, [answer.known for answer in answers]) for one in read), *here),
        problems=(*silent, *index.problems),
        answered=len(silent) < len(answers) or not answers or bool(found) or bool(here),
        whole=not silent,
    )


@dataclass(frozen=True, kw_only=True)
class Wanted:
    names: frozenset[str]
    everything: bool
    now: str

    def entry(self, entry: IndexEntry) -> bool:
        """Of the index: what is named, else what was submitted lately."""
        if self.names:
            return bool({entry.run_name, entry.jobset} & self.names)
        age = seconds_between(entry.updated_at, self.now)
        return self.everything or age is None or age < LATELY_S

    def run(self, seen: Observation) -> bool:
        named = {seen.run_name, seen.jobset.name if seen.jobset else None} & self.names
        return bool(named) or not self.names

    def progress(self, seen: Observation) -> bool:
        """Not of what ended so long ago that nobody is shown it."""
        if self.names or self.everything or seen.jobset is None or seen.jobset.terminal is None:
            return True
        ends = [c.at for c in seen.jobset.conditions if c.type == seen.jobset.terminal and c.at]
        age = seconds_between(max(ends, default=seen.jobset.created_at), self.now)
        return age is None or age < RECENT_S


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """Of one target."""

    observations: tuple[Observation, ...]
    cluster: Cluster | None = None
    problem: Problem | None = None
    known: Mapping[str, Known] = field(default_factory=dict)


def _asked(target: Target, *, store: RecordStore, entries: Sequence[IndexEntry], wanted: Wanted) -> _Answer:
    known = recall(store.state, cluster=target.name, namespace=target.namespace)
    submitted = tuple(
        one for one in entries if went_to(one, cluster=target.name, namespace=target.namespace) and wanted.entry(one)
    )
    try:
        cluster = target.connect()
        found = observe_cluster(cluster, namespace=target.namespace, name=target.name, now=wanted.now)
    except XsftError as failed:
        return _silent(target, failed, known=known, submitted=submitted, wanted=wanted)
    uids = {seen.jobset.uid for seen in found if seen.jobset}
    forget(store.state, cluster=target.name, namespace=target.namespace, there=uids, now=wanted.now)
    there = uids | {seen.jobset.name for seen in found if seen.jobset}
    gone = (one for one in submitted if not {one.uid, one.jobset} & there)
    lost = (forgotten(one, cluster=target.name, known=known, now=wanted.now) for one in gone)
    seen = (_with_known(one, known) for one in found if wanted.run(one))
    return _Answer(observations=(*seen, *lost), cluster=cluster, known=known)


def _silent(
    target: Target,
    failed: XsftError,
    *,
    known: Mapping[str, Known],
    submitted: Sequence[IndexEntry],
    wanted: Wanted,
) -> _Answer:
    """What was known last, and what was submitted from here since."""
    missing = (unread("jobsets", failed),)
    older = [one.observation(target.name, unread=missing) for one in known.values()]
    since = [
        replace(forgotten(one, cluster=target.name, known=known, now=wanted.now), unread=missing)
        for one in submitted
        if one.uid not in known
    ]
    (first, *_) = failed.problems
    problem = replace(first, severity="warning", message=f"{target.name}: {first.message}")
    return _Answer(observations=(*(one for one in older if wanted.run(one)), *since), problem=problem)


def _with_known(seen: Observation, known: Mapping[str, Known]) -> Observation:
    """What a run said before its end does not change after it: it is not read again."""
    last = known.get(seen.jobset.uid) if seen.jobset and seen.jobset.terminal else None
    return replace(seen, progress=last.progress) if last and last.ended else seen


def _with_last_words(seen: Observation, known: Sequence[Mapping[str, Known]]) -> Observation:
    """Of a run that has failed and whose log is gone with its pods: what it had said when it was looked at before.

    Only of one that the cluster says has failed: of one that completed, an older step could be taken for its last.
    """
    failed = seen.jobset is not None and seen.jobset.terminal == "Failed" and seen.progress is None
    if not failed or seen.jobset is None:
        return seen
    last = next((one[seen.jobset.uid] for one in known if seen.jobset.uid in one), None)
    return replace(seen, progress=last.progress) if last else seen


def _with_progress(
    found: Sequence[Observation], *, source: Source, wanted: Wanted, effort: Effort
) -> tuple[Observation, ...]:
    """The newest first, so many of those that are active and so many of those that are over."""
    newest = sorted(found, key=lambda one: one.jobset.created_at if one.jobset else "", reverse=True)
    counts = {True: effort.ended_at_most, False: effort.at_most} if effort.progress_s > 0 else {True: 0, False: 0}
    asked: list[Observation] = []
    rest: list[Observation] = []
    for one in newest:
        over = one.jobset is None or one.jobset.terminal is not None
        worth = wanted.progress(one) and one.progress is None and tells(one)
        counts[over] -= worth
        (asked if worth and counts[over] >= 0 else rest).append(one)
    read = read_progress(asked, source=source, deadline_s=effort.progress_s)
    return (*read, *(not_asked(one) if wanted.progress(one) else one for one in rest))


def _source(clusters: Mapping[str, Cluster], *, store: RecordStore, entries: Sequence[IndexEntry]) -> Source:
    outputs = {(cluster_of(one), one.run_name): one.output for one in entries if one.output}

    def output(seen: Observation) -> str | None:
        said = seen.jobset.output if seen.jobset else None
        return said or outputs.get((seen.cluster or "", seen.run_name))

    def recorded(seen: Observation) -> Recorded | None:
        place = output(seen)
        records = store.read_run(place, seen.run_name) if place else ()
        return recorded_of(records, seen.record.uid if seen.record else None)

    return Source(
        cluster=lambda name: clusters[name],
        objects=store.objects_at,
        output=output,
        recorded=recorded,
        now=store.now,
    )
