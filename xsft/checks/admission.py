"""Check whether the cluster will admit a planned JobSet, from the objects that were read from it. Pure.

A problem says "never" only if the queue's own objects say so; it names what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.lenient import JsonObject
from xsft.base.problems import Problem, error, namespace_missing, note
from xsft.checks.controllers import check_controllers, check_jobset_version, check_provisioning
from xsft.checks.demand import Demand, SecretNeed
from xsft.checks.node_pools import check_cpu_nodes, check_cpu_quota, check_node_pools
from xsft.checks.pod_identity import PodRights, check_identity
from xsft.checks.quota import check_namespace_quota, check_quota
from xsft.cluster.objects import ClusterQueue, LocalQueue, ResourceFlavor
from xsft.cluster.supply import Node

T = TypeVar("T")

QUEUE_INACTIVE = LateProblem(id="queue-inactive")
QUEUE_IN_ORDER = LateProblem(id="queue-in-order")
ADMISSION_UNSEEN = LateProblem(id="admission-unseen")


class UnreadFact(Struct, frozen=True, kw_only=True):
    """Something that could not be read, and why."""

    why: str


def listed(objects: tuple[T, ...] | UnreadFact) -> tuple[T, ...]:
    """Return the objects; none if they could not be read."""
    return () if isinstance(objects, UnreadFact) else objects


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """The cluster's objects that one plan needs, as the cluster returns them; None for an object that does not
    exist.
    """

    context: str
    namespace: JsonObject | UnreadFact | None
    local_queue: LocalQueue | UnreadFact | None
    known_queues: tuple[str, ...]
    """LocalQueues of the namespace."""
    cluster_queue: ClusterQueue | UnreadFact | None
    flavors: Mapping[str, ResourceFlavor]
    """ResourceFlavors of the ClusterQueue, by name; only those that could be read."""
    admission_checks: Mapping[str, JsonObject] = {}
    """AdmissionChecks of the ClusterQueue, by name; only those that could be read."""
    priority_classes: Mapping[str, JsonObject | UnreadFact | None]
    known_priorities: tuple[str, ...]
    secrets: Mapping[str, frozenset[str] | UnreadFact | None]
    """Key names of each requested Secret."""
    jobsets: tuple[JsonObject, ...]
    """The JobSets of every attempt of this run."""
    same_name: JsonObject | None
    """The JobSet that has the planned name, of any creator."""
    nodes: tuple[Node, ...] | UnreadFact | None = None
    """Nodes without chips; None if a TPU slice is requested. Many users may not list nodes: then there is no check."""
    selected: Mapping[str, tuple[Node, ...] | UnreadFact] = {}
    """For each pod set of a run on slices, by name: the nodes that its node selector selects."""
    occupied: Mapping[str, str] | UnreadFact = {}
    """By node on which a pod of a JobSet without a queue runs: namespace/name of that JobSet."""
    resource_quotas: tuple[JsonObject, ...] = ()
    """The namespace's ResourceQuotas that could be read."""
    controllers: Mapping[str, JsonObject] = {}
    """The Deployments of CONTROLLERS that could be read."""
    ready_timeout_s: float | None = None
    """Kueue's waitForPodsReady; None if it does not wait, or if that is unknown."""
    service_account: JsonObject | UnreadFact | None = None
    """The ServiceAccount of the pods."""
    rights: PodRights | None = None
    """The rights of the Google service account that the pods use; None if they could not be read."""


def admission_problems(facts: ClusterFacts, demand: Demand) -> tuple[Problem, ...]:
    if facts.namespace is None:
        return (namespace_missing(demand.namespace, facts.context),)
    return (
        *_check_local_queue(facts, demand),
        *_check_priority_class(facts),
        *(check_cpu_nodes(facts.nodes, demand) if isinstance(facts.nodes, tuple) else ()),
        *_check_node_pools(facts, demand),
        *check_namespace_quota(facts.resource_quotas, demand, context=facts.context),
        *check_controllers(facts.controllers, context=facts.context),
        *check_jobset_version(facts.controllers, facts.flavors, context=facts.context),
        *_check_identity(facts, demand),
        *(problem for need in demand.secrets for problem in _check_secret(facts, demand, need)),
        *_check_unread_facts(facts),
        *_check_unknowns(facts),
    )


def _check_identity(facts: ClusterFacts, demand: Demand) -> Iterator[Problem]:
    if isinstance(facts.service_account, dict):
        nodes = read_nodes(facts)
        yield from check_identity(facts.service_account, nodes, demand, context=facts.context, rights=facts.rights)


def _check_node_pools(facts: ClusterFacts, demand: Demand) -> Iterator[Problem]:
    occupied = {} if isinstance(facts.occupied, UnreadFact) else facts.occupied
    nodes = read_nodes(facts)
    yield from check_node_pools(nodes, demand, context=facts.context, flavors=facts.flavors, occupied=occupied)


def read_nodes(facts: ClusterFacts) -> Mapping[str, tuple[Node, ...]]:
    """Return the nodes of each pod set whose nodes could be read."""
    return {name: nodes for name, nodes in facts.selected.items() if isinstance(nodes, tuple)}


def _check_local_queue(facts: ClusterFacts, demand: Demand) -> Iterator[Problem]:
    if facts.local_queue is None:
        existing = ", ".join(facts.known_queues) or "none"
        message = f"The namespace {demand.namespace} has no LocalQueue {demand.queue}: the run would wait forever."
        yield error(
            "queue-missing",
            "queue",
            f"{message} Known: {existing}.",
            "Use one of them, or ask the administrator to create it.",
        )
        return
    if isinstance(facts.local_queue, UnreadFact):
        return
    yield from _check_stopped_queue(f"LocalQueue {demand.queue}", facts.local_queue)
    if facts.cluster_queue is None:
        name = facts.local_queue.spec.cluster_queue
        yield error(
            "cluster-queue-missing",
            "queue",
            f"The LocalQueue {demand.queue} belongs to a ClusterQueue that does not exist: {name}.",
            "Use another queue, or ask the administrator to create that one.",
        )
    elif not isinstance(facts.cluster_queue, UnreadFact):
        yield from _check_stopped_queue(f"ClusterQueue {facts.cluster_queue.name}", facts.cluster_queue)
        yield from _check_strict_queue(facts.cluster_queue)
        yield from _check_namespace_selector(facts, demand, facts.cluster_queue)
        yield from check_provisioning(facts.cluster_queue, facts.admission_checks, facts.flavors, demand)
        if demand.asks_chips:
            yield from check_quota(facts.cluster_queue, facts.flavors, demand)
        else:
            yield from check_cpu_quota(facts.cluster_queue, facts.flavors, demand, context=facts.context)


def _check_stopped_queue(what: str, queue: LocalQueue | ClusterQueue) -> Iterator[Problem]:
    """Check whether the queue is stopped; a warning, because it can be started again. source: Kueue's condition
    `Active`."""
    inactive = [c for c in queue.status.conditions if c.type == "Active" and c.status == "False"]
    if not inactive and queue.spec.stop_policy == "None":
        return
    why = inactive[0].message if inactive else f"its stopPolicy is {queue.spec.stop_policy}"
    yield QUEUE_INACTIVE.warning(
        "queue",
        f"The {what} admits no workloads at present: {why}",
        "Ask the cluster's administrator; the run waits until it is active.",
    )


def _check_strict_queue(queue: ClusterQueue) -> Iterator[Problem]:
    """Check for waiting Workloads that a strict queue admits first, even if only this run fits. source: kueue@v0.16.1
    apis/kueue/v1beta1/clusterqueue_types.go, StrictFIFO."""
    pending = queue.status.pending_workloads
    if queue.spec.queueing_strategy == "StrictFIFO" and pending:
        yield QUEUE_IN_ORDER.warning(
            "queue",
            f"The ClusterQueue {queue.name} is StrictFIFO and {pending} Workloads wait in it. Those of "
            "the run's priority or higher are admitted first, even if quota is left.",
            "Set a higher priority, or use a queue with BestEffortFIFO.",
        )


def _check_namespace_selector(facts: ClusterFacts, demand: Demand, queue: ClusterQueue) -> Iterator[Problem]:
    """Check the queue's namespace selector. source: Kueue's ClusterQueue.spec.namespaceSelector: none matches nothing,
    an empty one everything."""
    selector = queue.spec.namespace_selector
    if isinstance(facts.namespace, UnreadFact) or facts.namespace is None:
        return
    labels = facts.namespace["metadata"].get("labels") or {}
    if selector is None or not selector.selects(labels):
        yield error(
            "queue-refuses-namespace",
            "namespace",
            f"The ClusterQueue {queue.name} admits no workloads from namespace {demand.namespace}: "
            "its namespaceSelector does not match.",
            "Use another namespace or another queue.",
        )


def _check_priority_class(facts: ClusterFacts) -> Iterator[Problem]:
    """Check that the priority class exists. source: run against Kueue 0.16.1: without it no Workload is made, and no
    event says why."""
    for name, priority_class in facts.priority_classes.items():
        if priority_class is None:
            existing = ", ".join(facts.known_priorities) or "none"
            yield error(
                "priority-class-missing",
                "priority",
                f"The cluster has no PriorityClass {name}: the run would wait forever. Known: {existing}.",
                "Use one of them, or create it (`xpk cluster adapt`).",
            )


def _check_secret(facts: ClusterFacts, demand: Demand, need: SecretNeed) -> Iterator[Problem]:
    keys = facts.secrets.get(need.name)
    if isinstance(keys, UnreadFact):
        return
    location = f"in the namespace {demand.namespace}"
    if keys is None:
        how = (
            f"xsft secret create {need.name} --key {need.key} --from-file FILE{_namespace_option(demand)}"
            if need.key
            else f"kubectl create secret docker-registry {need.name}{_namespace_option(demand)} …"
        )
        yield error(
            "secret-missing",
            need.where,
            f"Secret {need.name} was not found {location}; the pods would never start.",
            f"Create it: {how}",
        )
    elif need.key is None and not PULL_KEYS & keys:
        yield error(
            "secret-key-missing",
            need.where,
            f"The Secret {need.name} {location} has no {min(PULL_KEYS)}, so the nodes pull the image without a login.",
            "Make another with `kubectl create secret docker-registry`.",
        )
    elif need.key and need.key not in keys:
        yield error(
            "secret-key-missing",
            need.where,
            f"The Secret {need.name} {location} has no key {need.key}; it has {', '.join(sorted(keys)) or 'none'}.",
            "Use one of its keys, or create another Secret.",
        )


PULL_KEYS = frozenset({".dockerconfigjson", ".dockercfg"})
"""source: kubernetes@1.34 staging/src/k8s.io/api/core/v1/types.go, SecretTypeDockerConfigJson, SecretTypeDockercfg"""


def _namespace_option(demand: Demand) -> str:
    return "" if demand.namespace == "default" else f" --namespace {demand.namespace}"


def _check_unread_facts(facts: ClusterFacts) -> Iterator[Problem]:
    several: dict[str, Any] = {**facts.priority_classes, **facts.secrets}
    looked = (facts.namespace, facts.local_queue, facts.cluster_queue, *several.values())
    for why in dict.fromkeys(fact.why for fact in looked if isinstance(fact, UnreadFact)):
        yield ADMISSION_UNSEEN.warning(
            "", f"Admission could not be checked completely: {why}", "Ask for read access, or ignore this warning."
        )


def _check_unknowns(facts: ClusterFacts) -> Iterator[Problem]:
    """Yield a note for each kind of object that could not be read, with what is unknown as a result. Many users may
    read neither nodes nor other queues.
    """
    facts_of = {
        "whether usable nodes exist for all slices and for a Pathways head": facts.selected.values(),
        "whether a JobSet without a queue holds a slice": [facts.occupied],
        "which account the pods use to reach the run's buckets": [facts.service_account],
    }
    for what, read in facts_of.items():
        for fact in read:
            if isinstance(fact, UnreadFact):
                yield note(
                    "cluster-not-read", "", f"Unknown: {what}. {fact.why}", "Ask for read access.", kind="unread"
                )
                break
