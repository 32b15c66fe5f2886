"""Read all runs at once: those of every queried cluster, those of this machine, and those that their cluster no longer
has. Each cluster has one deadline; if it passes, what was last known of its runs is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import ClusterMissing, Unreachable, XsftError
from xsft.base.lenient import ShowLine
from xsft.base.problems import Problem
from xsft.base.secrets import redact
from xsft.base.targets import FIRST
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.objects import JOB_UID_LABEL, BadObject, ObjectList, PendingWorkload, Workload, queues_of
from xsft.cluster.observation import Observation, RunObject, Unread, What
from xsft.cluster.pod_fields import Pod, first_hosts_selector, pods_selector
from xsft.cluster.reads import Reads
from xsft.cluster.sources import RunSource
from xsft.machine.deadline import Deadline
from xsft.machine.parallel import SAY_AFTER_S, StartedCall, start
from xsft.records.index import Index, IndexEntry
from xsft.records.jobset_paths import FIRST_HOSTS, SERVERS
from xsft.records.record_files import RecordStore
from xsft.runs.lastknown import (
    LastKnown,
    bare_row,
    forget,
    forgotten,
    gone_of,
    recall,
    went_to,
    with_known,
    with_last_words,
)
from xsft.runs.local_runs import observe_local
from xsft.runs.lookup import RunsRead
from xsft.runs.read_progress import LONG_TAIL, TAIL, ProgressSource, not_asked, read_progress, unread_of
from xsft.runs.read_scope import ReadScope, choose_reads

T = TypeVar("T")

LATE_S = 5.0
"""Seconds after the JobSets in which the other lists are awaited."""
MAX_QUEUES = 4
"""Maximum number of LocalQueues whose pending workloads are queried; xpk creates one queue per namespace."""
PENDING = "status.phase=Pending"

NOT_ASKED = Unread(what="queue", why=f"queue position unknown: only the {MAX_QUEUES} longest queues are queried")

PodsCall = StartedCall[ObjectList[Pod]]


class NamespaceMemory(Struct, frozen=True, kw_only=True):
    """What this machine knows of the namespace's runs."""

    known: Mapping[str, LastKnown]
    """What was last seen of them, by the JobSet's UID."""
    submitted: tuple[IndexEntry, ...]
    """The runs that were submitted from here and that the read covers."""


class NamespaceRead(Struct, frozen=True, kw_only=True):
    observations: tuple[Observation, ...]
    """One per attempt of a run."""
    uids: frozenset[str]
    """The UIDs of all objects of runs that were listed."""


def read_namespace(
    cluster: Cluster,
    source: RunSource,
    *,
    scope: ReadScope,
    memory: NamespaceMemory,
    store: RecordStore,
    deadline: Deadline,
) -> NamespaceRead:
    """Return the runs. Raises Unreachable if the JobSets cannot be read, EnvironmentMissing if the cluster has no
    JobSet; what else cannot be read is in `unread`. `deadline`: of the whole read.
    """
    reads, namespace = cluster.reads, source.namespace
    servers_call = start(partial(reads.servers, namespace=namespace))
    if scope.names:
        jobsets = reads.jobsets_named(scope.names, namespace=namespace)
        workloads_call = start(partial(_workloads_of, reads, jobsets.objects, namespace=namespace))
    else:
        workloads_call = start(partial(reads.workloads, namespace=namespace))
        jobsets = reads.jobsets(namespace=namespace)
    now = cluster.time_there(scope.now)
    late = deadline.sooner(LATE_S)
    rows = [bare_row(jobset, cluster=source.name, at=now) for jobset in jobsets.objects if scope.covers_jobset(jobset)]
    rows = [with_known(row, memory.known) for row in rows]
    pods_calls = _start_pods(reads, rows, scope=scope, namespace=namespace)
    servers, unlisted = _listed_by(servers_call, "servers", late)
    server_rows = [bare_row(run, cluster=source.name, at=now) for run in servers.objects if scope.covers_jobset(run)]
    if any(row.jobset and is_starting(row.jobset) for row in server_rows):
        pods_calls += (start(partial(reads.pods, namespace=namespace, labels=SERVERS, cached=True)),)
    rows = _with_workloads(rows, workloads_call, reads=reads, namespace=namespace, late=late)
    rows = _with_pods([*rows, *server_rows], pods_calls, late, scope=scope)
    bad = [
        _bad_row(bad_object, source, now)
        for bad_object in (*jobsets.bad, *servers.bad)
        if scope.covers_name(bad_object.name)
    ]

    uids = frozenset(run.uid for run in (*jobsets.objects, *servers.objects))
    gone = _gone_rows(rows, uids, unlisted, source=source, memory=memory, now=now)
    outputs = {entry.run_name: entry.output for entry in memory.submitted if entry.output}
    progress = ProgressSource(cluster=cluster, store=store, outputs=outputs, first_pods=pods_calls)
    rows = _with_progress([*rows, *gone], progress, scope=scope, deadline=deadline)
    rows = [*(with_last_words(row, memory.known) for row in rows), *bad]
    if now != scope.now:
        rows = [replace(row, read_at=scope.now) for row in rows]
    return NamespaceRead(observations=tuple(rows), uids=uids)


def _workloads_of(reads: Reads, jobsets: Sequence[RunObject], *, namespace: str) -> ObjectList[Workload]:
    if not jobsets:
        return ObjectList()
    uids = ",".join(sorted(jobset.uid for jobset in jobsets))
    return reads.workloads(namespace=namespace, labels=f"{JOB_UID_LABEL} in ({uids})")


def _bad_row(bad: BadObject, source: RunSource, now: str) -> Observation:
    """Return the row of an object that cannot be read: it costs no other row."""
    unread = Unread(what="object", why=f"{bad.name} cannot be read: {redact(bad.why)}", again="never")
    return Observation(run_name=bad.name, target=FIRST, observed_at=now, cluster=source.name, unread=(unread,))


def _start_pods(reads: Reads, rows: Sequence[Observation], *, scope: ReadScope, namespace: str) -> tuple[PodsCall, ...]:
    """Request the first pod of each Job of the runs whose progress is read, and of the starting ones: these pods print
    the steps, and show why a run does not start. The API server scans every pod of the namespace for such a list.
    """
    names = {row.jobset.name for row in choose_reads(rows, scope=scope).asked if row.jobset}
    starting = {row.jobset.name for row in rows if row.jobset and is_starting(row.jobset)}
    if scope.every_pod and rows:
        labels = pods_selector(row.jobset.name for row in rows if row.jobset)
        return (start(partial(reads.pods, namespace=namespace, labels=labels)),)
    list_pods = partial(reads.pods, namespace=namespace, cached=True)
    calls = []
    if len(starting) > scope.limits.starting_at_most:
        calls.append(start(partial(list_pods, labels=FIRST_HOSTS, fields=PENDING)))
    else:
        names |= starting
    if names:
        calls.append(start(partial(list_pods, labels=first_hosts_selector(names))))
    return tuple(calls)


def is_starting(jobset: RunObject) -> bool:
    """Return whether some of the JobSet's Jobs are not up, so that one of its pods may be pending; or a server."""
    up = bool(jobset.jobs) and all(job.ready + job.succeeded >= job.replicas for job in jobset.jobs)
    return jobset.terminal is None and not jobset.suspended and not up


def _with_workloads(
    rows: Sequence[Observation],
    call: StartedCall[ObjectList[Workload]],
    *,
    reads: Reads,
    namespace: str,
    late: Deadline,
) -> list[Observation]:
    """Return the rows with their Kueue Workloads and the places of these in their queues."""
    listed, missing = _listed_by(call, "workloads", late)
    uids = {row.jobset.uid for row in rows if row.jobset}
    workloads = {workload.owner.uid: workload for workload in listed.objects if workload.owner.uid in uids}
    queues = queues_of(workloads.values())[:MAX_QUEUES]
    pending, no_positions = _read_queues(reads, queues, namespace=namespace, late=late)
    positions = {entry.name: entry.position_in_local_queue for queue in pending.values() for entry in queue}
    completed = []
    for row in rows:
        workload = workloads.get(row.uid or "")
        unread = [*row.unread, *missing]
        position = None
        waiting = None
        if workload is None:
            unread += _bad_unread("workloads", [bad for bad in listed.bad if f"-{row.jobset_name}-" in bad.name])
        elif workload.waits:
            queue = workload.spec.queue_name
            position = positions.get(workload.name)
            waiting = pending.get(queue or "")
            unread += no_positions if queue in queues or not queue else [NOT_ASKED]
        completed.append(replace(row, workload=workload, position=position, pending=waiting, unread=tuple(unread)))
    return completed


def _read_queues(
    reads: Reads, queues: Sequence[str], *, namespace: str, late: Deadline
) -> tuple[dict[str, tuple[PendingWorkload, ...]], list[Unread]]:
    """Return what waits in each queue that Kueue reports, and the failures."""
    calls = [start(partial(reads.pending_workloads, namespace=namespace, queue=queue)) for queue in queues]
    pending: dict[str, tuple[PendingWorkload, ...]] = {}
    failures: list[Unread] = []
    for queue, call in zip(queues, calls, strict=True):
        try:
            waiting = _result_by(call, late)
        except XsftError as failed:
            failures.append(unread_of("queue", failed))
            continue
        if waiting is not None:
            pending[queue] = waiting
    return pending, list(dict.fromkeys(failures))


def _with_pods(
    rows: Sequence[Observation], calls: Sequence[PodsCall], late: Deadline, *, scope: ReadScope
) -> list[Observation]:
    """Return the rows with their pods, if all are read; else with those of the rows that are starting: the pending ones
    of a JobSet, all of a server.
    """
    incomplete = [
        row for row in rows if row.jobset and (is_starting(row.jobset) or _takes_every_pod(row.jobset, scope))
    ]
    if not incomplete:
        return list(rows)
    answers = [_listed_by(call, "pods", late) for call in calls]
    failures = tuple(dict.fromkeys(unread for _, missing in answers for unread in missing))
    pods = [pod for listed, _ in answers for pod in listed.objects]
    bad = [pod for listed, _ in answers for pod in listed.bad]
    completed = [row for row in rows if row not in incomplete]
    for row in incomplete:
        every_pod = row.jobset is not None and not failures and _takes_every_pod(row.jobset, scope)
        its_pods = tuple(pod for pod in pods if _shows_start(pod, row) or (every_pod and pod.jobset == row.jobset_name))
        odd = [pod for pod in bad if pod.name.startswith(f"{row.jobset_name}-")]
        unread = (*row.unread, *failures, *_bad_unread("pods", odd))
        completed.append(
            replace(
                row,
                pods=its_pods if every_pod or (its_pods and not failures) else None,
                every_pod=every_pod,
                unread=unread,
            )
        )
    return completed


def _takes_every_pod(run: RunObject, scope: ReadScope) -> bool:
    return scope.every_pod and not run.serves


def _shows_start(pod: Pod, row: Observation) -> bool:
    """Return whether the pod shows how far its run is: a server's always, another one while it is pending."""
    if pod.serves:
        return pod.jobset == row.run_name
    return pod.jobset == row.jobset_name and pod.status.phase == "Pending"


def _gone_rows(
    rows: Sequence[Observation],
    uids: frozenset[str],
    unlisted: Sequence[Unread],
    *,
    source: RunSource,
    memory: NamespaceMemory,
    now: str,
) -> list[Observation]:
    """Return the rows of the runs that were submitted from here and that the cluster no longer has."""
    by_name = {row.jobset.name: row.jobset for row in rows if row.jobset}
    gone = []
    for entry in memory.submitted:
        if entry.uid in uids or _bears_its_name(entry, by_name.get(entry.jobset or "")):
            continue
        row = forgotten(entry, cluster=source.name, known=memory.known, now=now)
        # a server is gone only if the servers could be listed
        gone.append(replace(row, unread=tuple(unlisted)) if entry.work == "serve" else row)
    return gone


def _bears_its_name(entry: IndexEntry, jobset: RunObject | None) -> bool:
    """Return whether the JobSet found under the entry's name is another attempt of the same run, not an attempt of a
    run that is itself named `run-2`.
    """
    if jobset is None:
        return False
    return jobset.run_name == entry.run_name or (not jobset.ours and entry.uid is None)


def _with_progress(
    rows: Sequence[Observation], source: ProgressSource, *, scope: ReadScope, deadline: Deadline
) -> list[Observation]:
    """Return the rows, those whose progress is read first."""
    chosen = choose_reads(rows, scope=scope)
    seconds = min(scope.limits.progress_s, deadline.left_s)
    read = read_progress(chosen.asked, source=source, deadline_s=seconds, tail=LONG_TAIL if scope.names else TAIL)
    others = [not_asked(row) if scope.covers_progress(row) else row for row in chosen.others]
    return [*read, *others]


def _bad_unread(what: What, bad: Sequence[BadObject]) -> list[Unread]:
    return [
        Unread(what=what, why=f"{bad_object.name} cannot be read: {redact(bad_object.why)}", again="never")
        for bad_object in bad
    ]


def _listed_by(
    call: StartedCall[ObjectList[T]], what: What, late: Deadline
) -> tuple[ObjectList[T], tuple[Unread, ...]]:
    """Return the list, or an empty one and why it could not be read."""
    try:
        return _result_by(call, late), ()
    except XsftError as failed:
        return ObjectList(), (unread_of(what, failed),)


def _result_by(call: StartedCall[T], late: Deadline) -> T:
    if not call.ended(late.left_s):
        raise Unreachable(f"no answer within {LATE_S:g} s")
    with last_net(""):
        return call.result()


SEVERAL_S = 10.0
"""Seconds for one cluster, its login included, if others are shown meanwhile."""
ALONE_S = 60.0
"""The same if only one cluster is queried."""


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
    submitted = (entry for entry in entries if went_to(entry, cluster=source.name, namespace=source.namespace))
    return NamespaceMemory(
        known=recall(store.state, cluster=source.name, namespace=source.namespace),
        submitted=tuple(entry for entry in submitted if scope.covers_entry(entry)),
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
    while not read.ended(min(SAY_AFTER_S / 2, deadline.left_s)):  # before the line is shown
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
