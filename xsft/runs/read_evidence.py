"""Evidence that may explain a run, beyond its state: events, its queue and the queue's workloads, and the logs of
failed processes. All parts are requested at the same time. A part that cannot be read is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.base.lenient import mapping, text
from xsft.base.moments import seconds_between
from xsft.base.problems import Problem
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.event_fields import is_about, named_objects
from xsft.cluster.evidence import Event, Evidence, Neighbour
from xsft.cluster.jobset_fields import conditions_of
from xsft.cluster.observation import Condition, KueueWorkload, Observation, Pod, RunObject, Status
from xsft.cluster.pod_fields import selector_of
from xsft.cluster.queue_fields import Holding, quotas_of, waits
from xsft.machine import clock
from xsft.machine.parallel import StartedCall, start
from xsft.runs.classify import classify
from xsft.runs.evidence_logs import attempts_before, ends_of, failing_logs
from xsft.runs.list_runs import unread_of
from xsft.runs.rules import needs_dry_run

T = TypeVar("T")

DEADLINE_S = 15.0

_UID = re.compile(r"\bUID: ([0-9a-f-]{36})\b")


def read_evidence(
    cluster: Cluster,
    *,
    seen: Observation,
    status: Status,
    attempts: Sequence[Observation] = (),
    deadline_s: float = DEADLINE_S,
    now: Callable[[], str] = clock.now,
) -> Evidence:
    """Return the evidence on one run. `seen` must have a JobSet. `attempts`: all known attempts of the run, including
    this one. Does not raise if a part cannot be read.
    """
    jobset = seen.jobset
    if jobset is None:
        return Evidence(seen=seen, status=status)
    pods = start(lambda: cluster.reads.pods(namespace=jobset.namespace, labels=selector_of(jobset)))
    asked = _EvidenceQueries(cluster=cluster, jobset=jobset, workload=seen.workload, status=status)
    raw = start(lambda: cluster.get_jobset(name=jobset.name, namespace=jobset.namespace))
    events, node_events, cluster_queue = start(asked.events), start(asked.node_events), start(asked.cluster_queue)
    holdings, ahead = start(asked.holdings), start(asked.ahead)
    missing, dry_run = start(lambda: asked.missing(raw.result())), start(lambda: asked.dry_run(raw.result()))
    earlier = start(partial(ends_of, cluster, attempts_before(jobset, attempts), now))
    seen = _with_pods(seen, pods, deadline_s)
    logs = start(partial(failing_logs, cluster, seen, jobset))
    until = clock.monotonic() + deadline_s
    queue, held = _result_by(cluster_queue, until), _result_by(holdings, until)
    return Evidence(
        seen=seen,
        # computed again: the pods of all hosts can show more than those that `status` reads
        status=status if seen.pods is None else classify(seen, now=now()),
        events=_result_by(events, until),
        node_events=_of_its_nodes(_result_by(node_events, until), seen),
        logs=_result_by(logs, until),
        quotas=None if queue is None else quotas_of(queue),
        cluster_queue=None if queue is None else _active_condition(queue),
        holders=None if held is None else asked.holders(held, queue),
        ahead=_result_by(ahead, until),
        preemptor=asked.preemptor(held or ()),
        missing=_result_by(missing, until),
        dry_run=_result_by(dry_run, until),
        earlier=_result_by(earlier, until) or (),
    )


def _result_by(started: StartedCall[T], until: float) -> T | None:
    try:
        with last_net(""):
            return started.result(until - clock.monotonic())
    except XsftError:
        return None


def _with_pods(seen: Observation, pods: StartedCall[tuple[Pod, ...]], timeout_s: float) -> Observation:
    try:
        with last_net(seen.cluster or ""):
            return replace(seen, pods=pods.result(timeout_s))
    except XsftError as failed:
        return replace(seen, unread=(*seen.unread, unread_of("pods", failed)))


def _of_its_nodes(events: tuple[Event, ...] | None, seen: Observation) -> tuple[Event, ...] | None:
    """Return the events of the nodes that the run's pods are on. New pods are usually placed on the same nodes as the
    pods they replace.
    """
    nodes = {f"Node/{pod.node}" for pod in seen.pods or () if pod.node}
    return None if events is None else tuple(one for one in events if one.object in nodes)


def _active_condition(queue: Any) -> Condition | None:
    return next((c for c in conditions_of(mapping(queue, "status")) if c.type == "Active"), None)


class _EvidenceQueries(Struct, frozen=True, kw_only=True):
    """The queries about one run. Each raises XsftError, or returns None if it does not apply."""

    cluster: Cluster
    jobset: RunObject
    workload: KueueWorkload | None
    status: Status

    @property
    def waiting(self) -> bool:
        return self.workload is not None and waits(self.workload)

    def events(self) -> tuple[Event, ...]:
        """Return the namespace's warnings about the run, and all events of the JobSet itself."""
        reads, namespace = self.cluster.reads, self.jobset.namespace
        own = reads.events(namespace=namespace, fields=f"involvedObject.uid={self.jobset.uid}")
        warnings = reads.events(namespace=namespace, fields="type=Warning")
        name = self.workload.name if self.workload else None
        about = (one for one in warnings if is_about(one, self.jobset, workload=name))
        return tuple(dict.fromkeys((*own, *about)))

    def node_events(self) -> tuple[Event, ...] | None:
        """Return the warnings of all nodes since the JobSet was created. Node events are in the namespace `default`,
        whatever the run's namespace.
        """
        if not self.jobset.restarts:
            return None
        found = self.cluster.reads.events(namespace="default", fields="involvedObject.kind=Node,type=Warning")
        return tuple(one for one in found if (seconds_between(self.jobset.created_at, one.at) or 0.0) >= 0)

    def cluster_queue(self) -> Any | None:
        """Return the ClusterQueue that the run's LocalQueue points to, or in which the run holds quota."""
        name = self.workload.cluster_queue if self.workload else None
        queue = (self.workload.queue if self.workload else None) or self.jobset.queue
        if name is None and queue is not None:
            local = self.cluster.local_queue(name=queue, namespace=self.jobset.namespace)
            name = text(mapping(local, "spec").get("clusterQueue"))
        return self.cluster.cluster_queue(name) if name else None

    def holdings(self) -> tuple[Holding, ...] | None:
        """Return the quota holdings of the whole cluster if they may be read, since a ClusterQueue serves several
        namespaces; else those of the run's namespace.
        """
        if not self.waiting:
            return None
        try:
            return self.cluster.reads.holdings(namespace=None)
        except XsftError:
            return self.cluster.reads.holdings(namespace=self.jobset.namespace)

    def holders(self, held: Sequence[Holding], queue: Any | None) -> tuple[Neighbour, ...]:
        """Return the workloads that hold accelerators in the queue. Those that hold none do not block the run."""
        name = text(mapping(queue, "metadata").get("name"))
        there = [one for one in held if name in (None, one.cluster_queue) and one.holds]
        ordered = sorted(there, key=lambda one: (-(one.priority or 0), one.jobset or ""))
        return tuple(Neighbour(name=one.jobset or one.uid, priority=one.priority, holds=one.holds) for one in ordered)

    def ahead(self) -> tuple[Neighbour, ...] | None:
        if not self.waiting or self.workload is None or self.workload.queue is None:
            return None
        waiting = self.cluster.reads.waiting(namespace=self.jobset.namespace, queue=self.workload.queue)
        if waiting is None:
            return None
        own = next((one.position for one in waiting if one.name == self.workload.name), None)
        before = sorted((one for one in waiting if own is not None and one.position < own), key=lambda o: o.position)
        return tuple(
            Neighbour(name=one.jobset or one.name, priority=one.priority, position=one.position) for one in before
        )

    def preemptor(self, held: Sequence[Holding]) -> str | None:
        """Return the JobSet that preempted the run, or None. Kueue names the preemptor's Workload only by its UID in a
        message.
        """
        said = (c.message for c in (self.workload.conditions if self.workload else ()) if c.type == "Preempted")
        uids = {uid for message in said for uid in _UID.findall(message)}
        return next((one.jobset for one in held if uids & {one.uid, one.owner_uid}), None)

    def missing(self, raw: Any) -> tuple[str, ...] | None:
        """Return the objects that the run references and that the cluster reports as not found."""
        if raw is None:
            return None
        return tuple(f"{kind}/{name}" for kind, name in named_objects(raw) if not self._is_there(kind, name))

    def dry_run(self, raw: Any) -> tuple[Problem, ...] | None:
        return self.cluster.dry_run_jobs(raw) if raw is not None and needs_dry_run(self.status) else None

    def _is_there(self, kind: str, name: str) -> bool:
        namespace = self.jobset.namespace
        try:
            match kind:
                case "LocalQueue":
                    return self.cluster.local_queue(name=name, namespace=namespace) is not None
                case "PriorityClass":
                    return self.cluster.priority_class(name) is not None
                case _:
                    return self.cluster.secret_exists(name=name, namespace=namespace)
        except XsftError:
            return True  # it may exist
