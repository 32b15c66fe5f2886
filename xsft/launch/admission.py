"""Reads a cluster before anything is created on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from msgspec.structs import replace

from xsft.base.aliases import JsonObject
from xsft.base.errors import Forbidden, SpecError
from xsft.base.lenient import mapping, object_name, rows
from xsft.base.problems import Problem, errors_in
from xsft.checks.admission import ClusterFacts, UnreadFact, admission_problems, listed, read_nodes
from xsft.checks.controllers import CONTROLLERS, KUEUE_CONFIG, ready_timeout_s, required_checks
from xsft.checks.demand import Demand, demand_of
from xsft.checks.pod_identity import PodRights, rights_source
from xsft.cluster.cluster import Cluster
from xsft.cluster.jobset_fields import parse_jobset
from xsft.cluster.objects import typed
from xsft.cluster.pod_fields import POD
from xsft.machine.parallel import all_answers, start
from xsft.planning.steps import Planned

T = TypeVar("T")
P = ParamSpec("P")


def unless_forbidden(look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | UnreadFact:
    """Return what `look` answers, or why it may not be read. Raises as `look` does for every other failure."""
    try:
        return look(*args, **kwargs)
    except Forbidden as failed:
        return UnreadFact(why=failed.clause)


RightsOf = Callable[[str, Demand], PodRights | None]
"""Function that returns the rights of an account, given as `rights_source` does; None if it cannot read them."""


def examine(
    cluster: Cluster, plan: Planned, *, rights: RightsOf = lambda _source, _demand: None
) -> tuple[ClusterFacts, tuple[Problem, ...]]:
    """Return the cluster's facts, and the problems that prevent the plan. Creates nothing. `rights`: asks
    for the rights of the account that the pods use.

    Raises as `Cluster` does, except for what may not be read: that is a problem in the result.
    """
    demand = demand_of(manifest_of(plan), plan.run)
    facts = inspect(cluster, demand)
    nodes = read_nodes(facts)
    if isinstance(facts.service_account, dict) and (source := rights_source(facts.service_account, nodes, demand)):
        facts = replace(facts, rights=rights(source, demand))
    return facts, admission_problems(facts, demand)


def manifest_of(plan: Planned) -> JsonObject:
    """Return the plan's manifest. Raises SpecError if it has none."""
    if plan.manifest is None:
        raise SpecError(errors_in(plan.problems))
    return plan.manifest


def inspect(cluster: Cluster, demand: Demand) -> ClusterFacts:
    """Return what the cluster holds for the demand. The reads run in parallel; one that needs another's result waits
    for it. Raises as `Cluster` does.
    """
    namespace = demand.namespace
    local_queue = start(lambda: unless_forbidden(cluster.local_queue, name=demand.queue, namespace=namespace))
    queue = start(lambda: _cluster_queue(cluster, local_queue.result()))
    classes = start(lambda: _each(cluster.priority_class, demand.priority_classes))
    selected = start(lambda: _selected_nodes(cluster, demand, queue.result()) if demand.asks_chips else {})
    looks: dict[str, Callable[[], Any]] = {
        "namespace": lambda: unless_forbidden(cluster.namespace, namespace),
        "local_queue": local_queue.result,
        "known_queues": lambda: _known_queues(cluster, namespace) if local_queue.result() is None else (),
        "cluster_queue": queue.result,
        "flavors": lambda: _readable(_each(cluster.resource_flavor, _flavor_names(queue.result()))),
        "admission_checks": lambda: _readable(_each(cluster.admission_check, required_checks(queue.result()))),
        "priority_classes": classes.result,
        "known_priorities": lambda: (
            _names(unless_forbidden(cluster.priority_classes)) if None in classes.result().values() else ()
        ),
        "secrets": lambda: _each(
            lambda name: cluster.secret_keys(name=name, namespace=namespace), [need.name for need in demand.secrets]
        ),
        "nodes": lambda: None if demand.asks_chips else unless_forbidden(cluster.cpu_nodes),
        "selected": selected.result,
        "occupied": lambda: _occupied_nodes(cluster, selected.result()),
        "controllers": lambda: _readable(_each(lambda name: _deployment(cluster, name), CONTROLLERS)),
        "ready_timeout_s": lambda: _ready_timeout_s(cluster),
        "service_account": lambda: _account(cluster, demand) if demand.buckets else None,
        "resource_quotas": lambda: _quotas(cluster, namespace),
        "jobsets": lambda: cluster.list_jobsets(namespace=namespace, run_name=demand.run_name),
        "same_name": lambda: cluster.get_jobset(name=demand.jobset, namespace=namespace),
    }
    answers = all_answers(tuple(looks.values()), threads=len(looks))
    return ClusterFacts(context=cluster.context, **dict(zip(looks, answers, strict=True)))


def _each(look: Callable[[str], T], names: Iterable[str]) -> dict[str, T | UnreadFact]:
    return {name: unless_forbidden(look, name) for name in names}


def _readable(objects: Mapping[str, JsonObject | UnreadFact | None]) -> dict[str, JsonObject]:
    """Return the objects that exist and may be read."""
    return {name: json for name, json in objects.items() if isinstance(json, dict)}


def _known_queues(cluster: Cluster, namespace: str) -> tuple[str, ...]:
    return _names(unless_forbidden(cluster.local_queues, namespace=namespace))


def _cluster_queue(cluster: Cluster, queue: JsonObject | UnreadFact | None) -> JsonObject | UnreadFact | None:
    if queue is None or isinstance(queue, UnreadFact):
        return queue
    name = str(mapping(queue, "spec").get("clusterQueue"))
    return unless_forbidden(cluster.cluster_queue, name)


def _selected_nodes(
    cluster: Cluster, demand: Demand, queue: JsonObject | UnreadFact | None
) -> dict[str, tuple[JsonObject, ...] | UnreadFact]:
    """Return the nodes of each pod set; of none if an admission check of the queue adds nodes before a run starts.
    source: Kueue's ProvisioningRequest admission check.
    """
    if required_checks(queue):
        return {}
    return {pods.name: unless_forbidden(cluster.nodes, selector=pods.node_selector) for pods in demand.pod_sets}


def _occupied_nodes(
    cluster: Cluster, selected: Mapping[str, tuple[JsonObject, ...] | UnreadFact]
) -> dict[str, str] | UnreadFact:
    """Return the JobSets without a queue that run on these nodes; without those that may not be read."""
    names = {str(node["metadata"]["name"]) for nodes in selected.values() if isinstance(nodes, tuple) for node in nodes}
    pods = unless_forbidden(cluster.first_pods_without_quota) if names else ()
    if isinstance(pods, UnreadFact):
        return pods
    running: dict[str, tuple[str, str]] = {}
    for json in pods:
        pod = typed(json, POD)
        if pod.spec.node_name in names and pod.status.phase == "Running":
            running[str(pod.spec.node_name)] = (pod.namespace, pod.jobset)
    without_queue = {owner for owner in set(running.values()) if _has_no_queue(cluster, *owner)}
    return {node: "/".join(owner) for node, owner in running.items() if owner in without_queue}


def _has_no_queue(cluster: Cluster, namespace: str, name: str) -> bool:
    jobset = unless_forbidden(cluster.get_jobset, namespace=namespace, name=name)
    return isinstance(jobset, dict) and parse_jobset(jobset).queue is None


def _deployment(cluster: Cluster, controller: str) -> JsonObject | None:
    where = CONTROLLERS[controller]
    return cluster.deployment(name=where.deployment, namespace=where.namespace)


def _ready_timeout_s(cluster: Cluster) -> float | None:
    """Return the timeout of Kueue's waitForPodsReady; None if it has none, or its configuration may not be read."""
    config = unless_forbidden(cluster.config_map, name=KUEUE_CONFIG, namespace=CONTROLLERS["Kueue"].namespace)
    return ready_timeout_s(config) if isinstance(config, dict) else None


def _quotas(cluster: Cluster, namespace: str) -> tuple[JsonObject, ...]:
    """Return the namespace's ResourceQuotas; none if they may not be read, since the dry run of the pods says more."""
    return listed(unless_forbidden(cluster.resource_quotas, namespace=namespace))


def _account(cluster: Cluster, demand: Demand) -> JsonObject | UnreadFact | None:
    return unless_forbidden(cluster.service_account, name=demand.service_account, namespace=demand.namespace)


def _flavor_names(queue: JsonObject | UnreadFact | None) -> Iterable[str]:
    groups = rows(mapping(queue, "spec").get("resourceGroups"))
    return dict.fromkeys(str(flavor["name"]) for group in groups for flavor in rows(group.get("flavors")))


def _names(objects: tuple[JsonObject, ...] | UnreadFact) -> tuple[str, ...]:
    return tuple(map(object_name, listed(objects)))
