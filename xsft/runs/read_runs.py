"""Reads all runs at once: those of every queried cluster, those of this machine, and those that their cluster no longer
has. All queries are started together, and each result is awaited only when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct, field
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import ClusterMissing, XsftError
from xsft.base.problems import Problem
from xsft.base.state_names import ENDED
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.lists import NamespaceLists
from xsft.cluster.observation import Observation, RunObject, Unread, seconds_since
from xsft.cluster.sources import RunSource
from xsft.machine import clock
from xsft.machine.deadline import Deadline
from xsft.machine.parallel import SoftDeadline, StartedCall, start
from xsft.records.index import Index, IndexEntry
from xsft.records.record_files import RecordStore
from xsft.runs.classify import admitted_at
from xsft.runs.first_pods import FirstPods, few_starting
from xsft.runs.forgotten import forgotten, went_to
from xsft.runs.lastknown import forget, gone_of, recall
from xsft.runs.lastknown_line import LastKnown
from xsft.runs.list_runs import observations_of, read_objects, unread_of
from xsft.runs.local_runs import observe_local
from xsft.runs.lookup import RunsRead
from xsft.runs.patience import deadline_of, wait_for
from xsft.runs.read_progress import LONG_TAIL, TAIL, ProgressSource, not_asked, read_progress
from xsft.runs.read_scope import ReadScope, may_have_progress, order_reads
from xsft.trainer.progress import Progress


class PendingLists(Struct, frozen=True, kw_only=True):
    """The lists of one source, in progress."""

    source: RunSource
    lists: StartedCall[tuple[Cluster, NamespaceLists]]
    """Also the connection. Raises XsftError."""


class ClusterAnswer(Struct, frozen=True, kw_only=True):
    """The answer of one source."""

    observations: tuple[Observation, ...]
    cluster: Cluster | None = None
    problem: Problem | None = None
    known: Mapping[str, LastKnown] = field(default_factory=dict)
    first_pods: FirstPods = FirstPods()


class PendingAnswer(Struct, frozen=True, kw_only=True):
    """The answer of one source, in progress."""

    source: RunSource
    started: StartedCall[ClusterAnswer]
    deadline: Deadline
    silent: Callable[[XsftError], ClusterAnswer]
    """Return the answer to use if the source does not answer: what is known without it."""

    def wait(self, *, alone: bool, say: ShowLine) -> ClusterAnswer:
        """Return the answer, or what is known without it if the source fails. `alone`: no other cluster is queried."""
        try:
            with last_net(self.source.name):
                return wait_for(self.started, self.deadline, name=self.source.name, alone=alone, say=say)
        except XsftError as failed:
            return self.silent(failed)


def read_runs(
    asked: Sequence[PendingLists],
    *,
    scope: ReadScope,
    store: RecordStore,
    index: Index,
    local: bool = True,
    say: ShowLine = lambda _line: None,
) -> RunsRead:
    """Return one Observation per attempt of a run. Raises no XsftError. `index`: read before the lists were requested.
    `local`: also the runs on this machine. `say` is called with a line that names the cluster being waited for.

    For a cluster that does not answer, the result holds what was last known of its runs, if anything, and a problem.
    """
    until, entries = clock.monotonic() + scope.limits.soon_s, index.entries
    alone = len({one.source.name for one in asked}) == 1
    deadline = deadline_of(alone=alone)
    pending = [_start_answer(one, deadline, store=store, entries=entries, scope=scope) for one in asked]
    here = observe_local((one for one in entries if scope.covers_entry(one)), now=scope.now) if local else ()
    answers = [one.wait(alone=alone, say=say) for one in pending]
    found = tuple(seen for answer in answers for seen in answer.observations)
    silent = tuple(answer.problem for answer in answers if answer.problem is not None)
    order = order_reads(found, scope=scope)
    read = read_progress(
        order.asked,
        source=_progress_source([one.source for one in pending], answers, store=store, entries=entries),
        deadline_s=scope.limits.progress_s,
        tail=LONG_TAIL if scope.names else TAIL,
        hurry=SoftDeadline(first=order.first, until=until),
    )
    left = (not_asked(one) if scope.covers_progress(one) else one for one in order.left)
    known = [answer.known for answer in answers]
    return RunsRead(
        observations=(*(_with_last_words(one, known) for one in (*read, *left)), *here),
        problems=(*silent, *index.problems),
        answered=len(silent) < len(answers) or not answers or bool(found) or bool(here),
        whole=not silent,
    )


def _start_answer(
    asked: PendingLists,
    deadline: Deadline,
    *,
    store: RecordStore,
    entries: Sequence[IndexEntry],
    scope: ReadScope,
) -> PendingAnswer:
    source = asked.source
    remembered = cache(partial(_remembered_runs, source, store=store, entries=entries, scope=scope))
    return PendingAnswer(
        source=source,
        started=start(partial(_answer_of_source, asked, deadline, store=store, scope=scope, remembered=remembered)),
        deadline=deadline,
        silent=partial(_answer_without, source, remembered=remembered, scope=scope),
    )


def _progress_source(
    sources: Sequence[RunSource],
    answers: Sequence[ClusterAnswer],
    *,
    store: RecordStore,
    entries: Sequence[IndexEntry],
) -> ProgressSource:
    pairs = tuple(zip(sources, answers, strict=True))
    return ProgressSource(
        clusters={one.name: answer.cluster for one, answer in pairs if answer.cluster},
        store=store,
        outputs={(one.cluster.name if one.cluster else "", one.run_name): one.output for one in entries if one.output},
        first_pods={(one.name, one.namespace): answer.first_pods for one, answer in pairs},
    )


RememberedRuns = tuple[Mapping[str, LastKnown], tuple[IndexEntry, ...]]
"""What was last known of the source's runs, and the index entries of runs submitted there from this machine."""


def _remembered_runs(
    source: RunSource, *, store: RecordStore, entries: Sequence[IndexEntry], scope: ReadScope
) -> RememberedRuns:
    known = recall(store.state, cluster=source.name, namespace=source.namespace)
    went_there = (one for one in entries if went_to(one, cluster=source.name, namespace=source.namespace))
    return known, tuple(one for one in went_there if scope.covers_entry(one))


def _answer_of_source(
    asked: PendingLists,
    deadline: Deadline,
    *,
    store: RecordStore,
    scope: ReadScope,
    remembered: Callable[[], RememberedRuns],
) -> ClusterAnswer:
    """Return the source's answer. Raises XsftError if the source does not answer."""
    source, (known, submitted) = asked.source, remembered()
    cluster, lists = asked.lists.result()
    jobsets, unlisted = read_objects(lists)
    starting = few_starting(jobsets, scope=scope)
    names = (*_jobsets_to_read(jobsets, known=known, scope=scope), *(starting or ()))
    first_pods = FirstPods().also_of(names, reads=cluster.reads, namespace=lists.namespace)
    tell = None if starting is None else [one.answer for one in first_pods.lists] if starting else ()
    found = observations_of(lists, first_pods=tell, name=source.name, now=scope.now)
    uids = {seen.jobset.uid for seen in found if seen.jobset}
    if deadline.left_s:  # otherwise the caller has shown the last known state
        mine = {uid: last for uid, last in known.items() if scope.covers_jobset(last.jobset)}
        forget(store.state, cluster=source.name, namespace=source.namespace, gone=gone_of(mine, uids), now=scope.now)
    there = {seen.jobset.name: seen.jobset for seen in found if seen.jobset}
    gone = (one for one in submitted if one.uid not in uids and not _bears_its_name(one, there.get(one.jobset or "")))
    lost = (_observe_lost(one, unlisted, cluster=source.name, known=known, now=scope.now) for one in gone)
    seen = (_with_known(one, known) for one in found if scope.covers_run(one))
    return ClusterAnswer(observations=(*seen, *lost), cluster=cluster, known=known, first_pods=first_pods)


def _observe_lost(
    entry: IndexEntry, unlisted: tuple[Unread, ...], *, cluster: str, known: Mapping[str, LastKnown], now: str
) -> Observation:
    """Return the observation of a run without an object; of a server only if the servers could be listed."""
    seen = forgotten(entry, cluster=cluster, known=known, now=now)
    return replace(seen, unread=unlisted) if entry.work == "serve" else seen


def _jobsets_to_read(jobsets: Sequence[RunObject], *, known: Mapping[str, LastKnown], scope: ReadScope) -> list[str]:
    """Return the names of the JobSets whose progress will be read, as far as the JobSets alone show it."""
    bare = [
        Observation(run_name=one.run_name, target=one.target, observed_at=scope.now, jobset=one)
        for one in jobsets
        if one.terminal or not one.suspended
    ]
    asked = order_reads([_with_known(one, known) for one in bare if scope.covers_run(one)], scope=scope).asked
    return [one.jobset.name for one in asked if one.jobset]


def _bears_its_name(entry: IndexEntry, held: RunObject | None) -> bool:
    """Return whether the JobSet found under the entry's name is another attempt of the same run, not an attempt of a
    run that is itself named `run-2`.
    """
    return held is not None and (held.run_name == entry.run_name or (not held.ours and entry.uid is None))


def _answer_without(
    source: RunSource, failed: XsftError, *, remembered: Callable[[], RememberedRuns], scope: ReadScope
) -> ClusterAnswer:
    """Return the answer for a source that failed: what was last known, and what was submitted from this machine
    since.
    """
    known, submitted = remembered()
    missing = (unread_of("jobsets", failed),)
    there = {uid: one for uid, one in known.items() if not one.gone}
    older = [one.observation(source.name, unread=missing) for one in there.values()]
    since = [
        replace(forgotten(one, cluster=source.name, known=known, now=scope.now), unread=missing)
        for one in submitted
        if one.uid not in there
    ]
    (first, *_) = failed.problems
    seen = (*(one for one in older if scope.covers_run(one)), *since)
    active = any(one.last_known is None or one.last_known.state not in ENDED for one in seen)
    # A missing cluster that only ended runs name is shown at those runs, not as a warning at every read.
    told = source.named or active or not isinstance(failed, ClusterMissing)
    return ClusterAnswer(observations=seen, problem=first.as_warning_of(source.name) if told else None)


def _with_known(seen: Observation, known: Mapping[str, LastKnown]) -> Observation:
    """Return the observation with what is already known of it.

    The log of a run does not change after the run ended, so it is not read again. For a restarted run, the state before
    the restart is added.
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


def _with_last_words(seen: Observation, known: Sequence[Mapping[str, LastKnown]]) -> Observation:
    """Return the observation with the progress of the last read, for what cannot be read now.

    All of it for a failed run whose log is gone with its pods, for a run that lost a pod since it was admitted, and for
    a run whose JobSet is gone. Not for a completed run: an older step could be taken for its last. The last checkpoint
    for any other run, since the end of a log need not contain it.
    """
    said, held, gone = seen.progress, seen.held, seen.jobset is None
    last = _last_progress(held.uid, known) if held is not None else None
    if last is None:
        return seen
    unsaid = said.saved_step is None if said else seen.jobset is not None and _stopped_since(seen, seen.jobset, last)
    if not (gone or unsaid):
        return seen
    if said is None:
        return replace(seen, progress=last)
    further = gone and last.step is not None and last.step > (said.step or 0)
    saved = said.saved_step if said.saved_step is not None else last.saved_step
    return replace(seen, progress=replace(last if further else said, saved_step=saved))


def _stopped_since(seen: Observation, jobset: RunObject, last: Progress) -> bool:
    """Return whether the run failed, or its pods do not run any more, since that progress was read."""
    if jobset.terminal is not None or jobset.suspended or may_have_progress(seen):
        return jobset.terminal == "Failed"
    passed = seconds_since(admitted_at(seen, jobset), seen, last.read_at)
    return jobset.restarts == 0 and passed is not None and passed > 0


def _last_progress(uid: str, known: Sequence[Mapping[str, LastKnown]]) -> Progress | None:
    return next((one[uid].progress for one in known if uid in one), None)
