"""Reads a cluster before something is created there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xsft.aliases import JsonObject
from xsft.checks.admission import ClusterFacts, Unseen, admission_problems
from xsft.checks.demand import Demand, demand_of
from xsft.effects.cluster.cluster import Cluster
from xsft.effects.cluster.permitted import unless_forbidden
from xsft.problems import Problem
from xsft.steps import Planned

T = TypeVar("T")


def examine(cluster: Cluster, plan: Planned) -> tuple[ClusterFacts, tuple[Problem, ...]]:
    """Return the cluster's facts, and the problems that prevent the plan. Creates nothing. The plan must have a
    manifest. Raises as `Cluster` does, except for what may not be read: that is a problem in the result.
    """
    if plan.manifest is None:
        raise ValueError("a plan without a manifest cannot go to a cluster")
    demand = demand_of(plan.manifest, plan.run)
    facts = inspect(cluster, demand)
    return facts, admission_problems(facts, demand)


def inspect(cluster: Cluster, demand: Demand) -> ClusterFacts:
    namespace = demand.namespace
    queue = unless_forbidden(lambda: cluster.local_queue(name=demand.queue, namespace=namespace))
    cluster_queue = _cluster_queue(cluster, queue)
    classes = {name: _has_class(cluster, name) for name in demand.priority_classes}
    return ClusterFacts(
        context=cluster.context,
        namespace=unless_forbidden(lambda: cluster.namespace(namespace)),
        local_queue=queue,
        known_queues=_names(lambda: cluster.local_queues(namespace=namespace)) if queue is None else (),
        cluster_queue=cluster_queue,
        flavors=_flavors(cluster, cluster_queue),
        priority_classes=classes,
        known_priorities=_names(cluster.priority_classes) if False in classes.values() else (),
        secrets={need.name: _keys(cluster, need.name, namespace) for need in demand.secrets},
        nodes=None if demand.asks_chips else unless_forbidden(cluster.cpu_nodes),
        jobsets=cluster.list_jobsets(namespace=namespace, run_name=demand.run_name),
        same_name=cluster.get_jobset(name=demand.jobset, namespace=namespace),
    )


def _cluster_queue(cluster: Cluster, queue: JsonObject | Unseen | None) -> JsonObject | Unseen | None:
    if queue is None or isinstance(queue, Unseen):
        return queue
    name = str(queue.get("spec", {}).get("clusterQueue"))
    return unless_forbidden(lambda: cluster.cluster_queue(name))


def _flavors(cluster: Cluster, queue: JsonObject | Unseen | None) -> dict[str, JsonObject]:
    """Return the ResourceFlavors that exist and may be read. The quota check skips a group that lacks one."""
    if queue is None or isinstance(queue, Unseen):
        return {}
    groups = queue.get("spec", {}).get("resourceGroups") or ()
    names = dict.fromkeys(str(flavor["name"]) for group in groups for flavor in group.get("flavors") or ())
    found = {name: _flavor(cluster, name) for name in names}
    return {name: flavor for name, flavor in found.items() if isinstance(flavor, dict)}


def _flavor(cluster: Cluster, name: str) -> JsonObject | Unseen | None:
    return unless_forbidden(lambda: cluster.resource_flavor(name))


def _has_class(cluster: Cluster, name: str) -> bool | Unseen:
    return unless_forbidden(lambda: cluster.priority_class(name) is not None)


def _keys(cluster: Cluster, name: str, namespace: str) -> frozenset[str] | Unseen | None:
    return unless_forbidden(lambda: cluster.secret_keys(name=name, namespace=namespace))


def _names(look: Callable[[], tuple[JsonObject, ...]]) -> tuple[str, ...]:
    found = unless_forbidden(look)
    return () if isinstance(found, Unseen) else tuple(str(item["metadata"]["name"]) for item in found)
