"""Read all runs at once: those of every queried cluster, those of this machine, and those that their cluster no longer
has. Each cluster has one deadline; if it passes, what was last known of its runs is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import ShowLine
from xsft.base.errors import ClusterMissing, Unreachable, XsftError
from xsft.base.problems import Problem
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.observation import Observation
from xsft.cluster.sources import RunSource
from xsft.machine.deadline import Deadline
from xsft.machine.parallel import StartedCall, start
from xsft.records.index import Index, IndexEntry
from xsft.records.record_files import RecordStore
from xsft.runs.lastknown import forget, forgotten, gone_of, recall, went_to
from xsft.runs.local_runs import observe_local
from xsft.runs.lookup import RunsRead
from xsft.runs.read_namespace import NamespaceMemory, NamespaceRead, read_namespace
from xsft.runs.read_progress import unread_of
from xsft.runs.read_scope import ReadScope

SEVERAL_S = 10.0
"""Seconds for one cluster, its login included, if others are shown meanwhile."""
ALONE_S = 60.0
"""The same if only one cluster is queried."""
SAY_AFTER_S = 1.0
"""After this time the cluster being waited for is printed."""


class SourceCall(Struct, frozen=True, kw_only=True):
    """A source, and the connection to its cluster that is being made."""

    source: RunSource
    cluster: StartedCall[Cluster]
    """Raises XsftError."""


class SourceAnswer(Struct, frozen=True, kw_only=True):
    observations: tuple[Observation, ...]
    problem: Problem | None = None
    """Why the source did not answer."""


def read_runs(
    calls: Sequence[SourceCall],
    *,
    scope: ReadScope,
    store: RecordStore,
    index: Index,
    local: bool = True,
    limit_s: float | None = None,
    say: ShowLine = lambda _line: None,
) -> RunsRead:
    """Return one Observation per attempt of a run. Raises no XsftError. `index`: read before the lists were requested.
    `local`: also the runs on this machine. `limit_s`: for one cluster; None: the usual limit. `say` is called with a
    line that names the cluster being waited for.

    For a cluster that does not answer, the result holds what was last known of its runs, if anything, and a problem.
    """
    alone = len({call.source.name for call in calls}) == 1
    if limit_s is None:
        limit_s = ALONE_S if alone else SEVERAL_S
    deadline = Deadline.after(limit_s)
    reads = []
    for call in calls:
        memory = _memory_of(call.source, store=store, entries=index.entries, scope=scope)
        read = start(partial(_read_source, call, scope=scope, memory=memory, store=store, deadline=deadline))
        reads.append((call.source, memory, read))
    covered = [entry for entry in index.entries if local and scope.covers_entry(entry)]
    here = observe_local(covered, now=scope.now)
    answers = []
    for source, memory, read in reads:
        try:
            listed = _awaited(read, source, deadline, limit_s=limit_s, say=say)
        except XsftError as failed:
            answers.append(_answer_without(source, failed, memory=memory, scope=scope))
        else:
            mine = {uid: last for uid, last in memory.known.items() if scope.covers_jobset(last.jobset)}
            gone = gone_of(mine, listed.uids)
            forget(store.state, cluster=source.name, namespace=source.namespace, gone=gone, now=scope.now)
            answers.append(SourceAnswer(observations=listed.observations))
    rows = (*(row for answer in answers for row in answer.observations), *here)
    problems = tuple(answer.problem for answer in answers if answer.problem is not None)
    return RunsRead(
        observations=rows,
        problems=(*problems, *index.problems),
        answered=len(problems) < len(answers) or not answers or bool(rows),
        whole=not problems,
    )


def _memory_of(
    source: RunSource, *, store: RecordStore, entries: Sequence[IndexEntry], scope: ReadScope
) -> NamespaceMemory:
    there = (entry for entry in entries if went_to(entry, cluster=source.name, namespace=source.namespace))
    return NamespaceMemory(
        known=recall(store.state, cluster=source.name, namespace=source.namespace),
        submitted=tuple(entry for entry in there if scope.covers_entry(entry)),
    )


def _read_source(
    call: SourceCall, *, scope: ReadScope, memory: NamespaceMemory, store: RecordStore, deadline: Deadline
) -> NamespaceRead:
    with last_net(call.source.name):
        # a moment more for each request, so that the wait for all of them ends first, with its own words
        cluster = call.cluster.result().by(deadline.extended(1.0))
        return read_namespace(cluster, call.source, scope=scope, memory=memory, store=store, deadline=deadline)


def _awaited(
    read: StartedCall[NamespaceRead], source: RunSource, deadline: Deadline, *, limit_s: float, say: ShowLine
) -> NamespaceRead:
    """Return the source's runs, or raise what reading them raised. Raises Unreachable after the deadline."""
    while not read.ended(min(SAY_AFTER_S, deadline.left_s)):
        if not deadline.left_s:
            longer = " With --place or --context xsft waits longer." if limit_s < ALONE_S else ""
            raise Unreachable(
                f"no answer within {limit_s:g} s; the state of its runs is unknown.",
                fix=f"Check the network, the VPN and the login, and try again.{longer}",
            )
        say(f"waiting for {source.name}")
    return read.result()


def _answer_without(source: RunSource, failed: XsftError, *, memory: NamespaceMemory, scope: ReadScope) -> SourceAnswer:
    """Return the answer for a source that failed: what was last known, and what was submitted from this machine
    since.
    """
    missing = (unread_of("jobsets", failed),)
    living = {uid: last for uid, last in memory.known.items() if not last.gone}
    covered = [last for last in living.values() if scope.covers_jobset(last.jobset)]
    rows = [last.observation(source.name, unread=missing) for last in covered]
    for entry in memory.submitted:
        if entry.uid not in living:
            row = forgotten(entry, cluster=source.name, known=memory.known, now=scope.now)
            rows.append(replace(row, unread=missing))
    if isinstance(failed, ClusterMissing) and not source.named and not rows:
        return SourceAnswer(observations=())  # nothing is shown for which its absence matters
    (first, *_) = failed.problems
    return SourceAnswer(observations=tuple(rows), problem=first.as_warning_of(source.name))
