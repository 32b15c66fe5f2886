"""State of the runs on a cluster, read with a fixed small number of lists, whatever the number of runs. Only a failure
to read the JobSets is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from xsft.base.errors import XsftError
from xsft.base.secrets import redact
from xsft.cluster.errors import last_net
from xsft.cluster.lists import NamespaceLists
from xsft.cluster.observation import Observation, Pod, RunObject, Unread, What
from xsft.cluster.queue_fields import queues_of, waits, with_positions
from xsft.cluster.reads import Reads
from xsft.machine.deadline import Deadline
from xsft.machine.parallel import StartedCall, start
from xsft.runs.server_states import serves

T = TypeVar("T")

LATE_S = 3.0
"""Seconds after the JobSets are read at which the other lists are given up. Much shorter than the time after which the
cluster is given up (`runs.patience.SEVERAL_S`), so the JobSets are shown before that.
"""

MAX_QUEUES = 4
"""Maximum number of LocalQueues whose pending workloads are queried; xpk creates one queue per namespace."""

NOT_ASKED = Unread(what="queue", why=f"queue position unknown: only the {MAX_QUEUES} longest queues are queried")


def observations_of(
    lists: NamespaceLists,
    *,
    name: str,
    now: str,
    first_pods: Sequence[StartedCall[tuple[Pod, ...]]] | None = None,
) -> tuple[Observation, ...]:
    """Return one Observation per JobSet of the namespace; each is an attempt of a run. `name`: the cluster as the user
    names it. `first_pods`: lists with the first pods of all starting Jobs; None: they are requested if a run is
    starting.

    Reads at most six lists: JobSets, servers' Deployments, Kueue's Workloads, the pending first pod of each Job if a
    run is starting, the pods of servers if one does not answer, and the pending workloads of the queue; one more for
    each other queue that has pending runs, the fullest first. `pods` holds those pending pods; None if a run has none.
    A list that cannot be read is in `unread`. Raises Unreachable if the JobSets cannot be read, EnvironmentMissing if
    the cluster has no JobSet.
    """
    jobsets, _ = read_objects(lists)
    pods = [lists.ask_pods()] if first_pods is None and any(map(is_starting, jobsets)) else list(first_pods or ())
    if any(one.serves and not is_serving(one) for one in jobsets):
        pods = [*pods, lists.ask_server_pods()]
    return tuple(map(_run_observer(lists, pods, name=name, now=now), jobsets))


def read_objects(lists: NamespaceLists) -> tuple[tuple[RunObject, ...], tuple[Unread, ...]]:
    """Return the JobSets and the servers' Deployments. Servers that cannot be read are no error: a user may have no
    right to list Deployments. Raises as reading the JobSets does.
    """
    jobsets = lists.jobsets.result()
    servers, missing = _result_in_time(lists.servers, "servers", Deadline.after(LATE_S))
    return (*jobsets, *(servers or ())), missing


def is_serving(server: RunObject) -> bool:
    return any(job.ready for job in server.jobs)


def is_starting(jobset: RunObject) -> bool:
    """Return whether some of the JobSet's Jobs are not up, so that one of its pods may be pending."""
    if jobset.serves:
        return False  # no Job has its pod
    up = bool(jobset.jobs) and all(job.ready + job.succeeded >= job.replicas for job in jobset.jobs)
    return jobset.terminal is None and not jobset.suspended and not up


def unread_of(what: What, failed: XsftError) -> Unread:
    """Return the entry for a list that could not be read, with the reason in one line."""
    (first, *_) = failed.problems
    why = redact(" ".join(failed.message.split()))[:300]
    return Unread(what=what, why=why, fix=first.fix, id=first.id, again=first.again)


def _run_observer(
    lists: NamespaceLists, pods: Sequence[StartedCall[tuple[Pod, ...]]], *, name: str, now: str
) -> Callable[[RunObject], Observation]:
    """Return the function that observes a run by what the other lists hold, of the pods those that are pending, and the
    servers'."""
    reads = lists.reads
    deadline = Deadline.after(LATE_S)
    owned, no_workloads = _result_in_time(lists.workloads, "workloads", deadline)
    queues = queues_of([one.workload for one in owned or ()])[:MAX_QUEUES]
    positions, no_positions = _read_positions(reads, queues, namespace=lists.namespace, deadline=deadline)
    by_uid = {one.owner: with_positions(one.workload, positions) for one in owned or () if one.owner}
    answers = [_result_in_time(one, "pods", deadline) for one in pods]
    by_name: dict[str, list[Pod]] = defaultdict(list)
    for pod in (pod for found, _ in answers for pod in found or ()):
        if pod.phase == "Pending" or serves(pod):
            by_name[pod.jobset].append(pod)
    no_pods = any(found is None for found, _ in answers)
    unread = (*no_workloads, *dict.fromkeys(one for _, missing in answers for one in missing))
    ahead_s = reads.api.http.ahead_s

    def observed(jobset: RunObject) -> Observation:
        workload = by_uid.get(jobset.uid)
        is_asked = workload is None or workload.queue in queues or not workload.queue
        return Observation(
            run_name=jobset.run_name,
            target=jobset.target,
            observed_at=now,
            ahead_s=ahead_s,
            mode=jobset.mode,
            cluster=name,
            steps=jobset.steps,
            jobset=jobset,
            workload=workload,
            pods=None if no_pods or jobset.name not in by_name else tuple(by_name[jobset.name]),
            unread=(*unread, *((no_positions if is_asked else (NOT_ASKED,)) if workload and waits(workload) else ())),
        )

    return observed


def _read_positions(
    reads: Reads, queues: Iterable[str], *, namespace: str, deadline: Deadline
) -> tuple[dict[str, int], tuple[Unread, ...]]:
    """Return the queue positions by the Workload's name, and the failures."""
    asked = [start(partial(reads.waiting, namespace=namespace, queue=queue)) for queue in queues]
    answers = [_result_in_time(one, "queue", deadline) for one in asked]
    positions = {one.name: one.position for waiting, _ in answers for one in waiting or ()}
    return positions, tuple(dict.fromkeys(one for _, missing in answers for one in missing))


def _result_in_time(started: StartedCall[T], what: What, deadline: Deadline) -> tuple[T | None, tuple[Unread, ...]]:
    if not started.ended(deadline.left_s):
        return None, (Unread(what=what, why=f"no answer within {LATE_S:g} s"),)
    try:
        with last_net(""):
            return started.result(), ()
    except XsftError as failed:
        return None, (unread_of(what, failed),)
