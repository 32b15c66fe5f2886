"""Check whether a ClusterQueue could ever hold what a JobSet requests, as Kueue decides it, and its namespace. Pure.

source: Kueue v0.16 pkg/scheduler/flavorassigner: each pod set takes one flavor per resource group; a flavor fits if the
pods' node selectors agree with its labels (only labels that the group's flavors have count), its taints are tolerated,
and every resource of the group fits. Run against v0.16.1: "previously considered podsets requests (0) + current podset
request (1024) > maximum capacity (512)", "flavor 2xv6e-256 doesn't match node affinity". A dry run of one pod sees only
that one, so a namespace's ResourceQuotas are compared with all pods (kubernetes.io/docs/concepts/policy/resource-
quotas: `cpu` and `memory` mean requests; other resources are named `requests.NAME`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.lenient import JsonObject, mapping
from xsft.base.problems import Problem, error
from xsft.checks.demand import TPU, Demand, PodSet, decimal_text, quantity
from xsft.cluster.objects import ClusterQueue, FlavorSpec, ResourceFlavor, ResourceQuota, Taint, Toleration

QUOTA_UNCOVERED = LateProblem(id="quota-uncovered")

UNBOUNDED = Decimal("Infinity")
RESOURCE_QUOTA = LateProblem(id="resource-quota")
RESOURCE_QUOTA_IN_USE = LateProblem(id="resource-quota-in-use")


class Flavor(Struct, frozen=True, kw_only=True):
    """A flavor of one resource group."""

    name: str
    spec: FlavorSpec
    """Empty if its ResourceFlavor could not be read."""
    capacity: Mapping[str, Decimal]
    """Maximum that can ever be used, by resource."""


class Group(Struct, frozen=True, kw_only=True):
    resources: tuple[str, ...]
    flavors: tuple[Flavor, ...]

    @property
    def label_keys(self) -> frozenset[str]:
        return frozenset(key for flavor in self.flavors for key in flavor.spec.node_labels)

    def matching_flavors(self, pods: PodSet) -> tuple[Flavor, ...]:
        """Return the flavors that the pods may get: their selectors agree, and their taints are tolerated."""
        selector = {key: label for key, label in pods.node_selector.items() if key in self.label_keys}
        matching = []
        for flavor in self.flavors:
            tolerations = (*pods.tolerations, *flavor.spec.tolerations)
            tolerated = all(tolerates(tolerations, taint) for taint in flavor.spec.node_taints)
            if tolerated and selector.items() <= flavor.spec.node_labels.items():
                matching.append(flavor)
        return tuple(matching)


def check_quota(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], demand: Demand) -> Iterator[Problem]:
    """Yield the quota's problems. `flavors`: the ResourceFlavors that could be read; a group with an unread one is not
    checked.
    """
    groups = groups_of(queue, flavors)
    readable = tuple(g for g in groups if all(f.name in flavors for f in g.flavors))
    name = queue.name
    for pods in demand.pod_sets:
        yield from _check_covered_resources(name, groups, pods)
        for group in readable:
            yield from _check_capacity(name, group, pods)
    for group in readable:
        yield from _check_shared_flavor(name, group, demand)


def _check_capacity(queue: str, group: Group, pods: PodSet) -> Iterator[Problem]:
    requested = {name: pods.requests[name] for name in group.resources if pods.requests.get(name)}
    if not requested:
        return
    flavors = group.matching_flavors(pods)
    if not flavors:
        selector = {k: v for k, v in pods.node_selector.items() if k in group.label_keys}
        has = "; ".join(f"{f.name}: {labels_text(f.spec.node_labels)}" for f in group.flavors)
        yield error(
            "flavor-mismatch",
            "tpu.type" if TPU in group.resources else "queue",
            f"It would never be admitted: {pods.name} needs nodes with {labels_text(selector)}, and the ClusterQueue "
            f"{queue} has {has}.",
            "Use a type that the cluster has, or another queue.",
        )
        return
    if any(all(amount <= _room(f, name) for name, amount in requested.items()) for f in flavors):
        return
    for name, amount in requested.items():
        maximum = max(_room(f, name) for f in flavors)
        if amount > maximum:
            yield _too_much(queue, resource=name, asked=amount, most=maximum, what=pods.name)


def _check_shared_flavor(queue: str, group: Group, demand: Demand) -> Iterator[Problem]:
    """Check pod sets that have only one flavor to choose: they share its quota."""
    for resource in group.resources:
        sharing = [(p, group.matching_flavors(p)) for p in demand.pod_sets if p.requests.get(resource)]
        for flavor in group.flavors:
            mine = [p.requests[resource] for p, matching in sharing if matching == (flavor,)]
            room, total = _room(flavor, resource), sum(mine, Decimal(0))
            if len(mine) > 1 and total > room >= max(mine):
                yield _too_much(queue, resource=resource, asked=total, most=room, what="all its jobs together")


def _check_covered_resources(queue: str, groups: tuple[Group, ...], pods: PodSet) -> Iterator[Problem]:
    covered = {name for group in groups for name in group.resources}
    for name in sorted(n for n, amount in pods.requests.items() if amount and n not in covered):
        message = f"The ClusterQueue {queue} has no quota for {name}, which {pods.name} requests"
        if name == TPU:
            yield error(
                "quota-uncovered",
                "queue",
                f"{message}: it would never be admitted.",
                "Use another queue, or ask the administrator for TPU quota.",
            )
        else:
            yield QUOTA_UNCOVERED.warning(
                "queue",
                f"{message}: unless Kueue ignores it, it is never admitted.",
                "Ask the administrator to add it to the queue, or to exclude it (excludeResourcePrefixes in "
                "Kueue's configuration).",
            )


def _too_much(queue: str, *, resource: str, asked: Decimal, most: Decimal, what: str) -> Problem:
    unit = "chips" if resource == TPU else resource
    return error(
        "quota-too-small",
        "tpu" if resource == TPU else "queue",
        f"It would never be admitted: {what} requests {decimal_text(asked)} {unit}, and the maximum of the"
        f" ClusterQueue {queue} is {decimal_text(most)}.",
        "Use fewer or smaller slices or another queue, or ask for more quota.",
    )


def labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key.rpartition('/')[2]}={value}" for key, value in labels.items()) or "no labels"


def _room(flavor: Flavor, resource: str) -> Decimal:
    return flavor.capacity.get(resource, Decimal(0))


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether pods with these tolerations may run on a node with the taint."""
    return not taint.excludes or any(toleration.tolerates(taint) for toleration in tolerations)


def groups_of(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> tuple[Group, ...]:
    """Return the resource groups of the queue, with the flavors that could be read."""
    groups = []
    for group in queue.spec.resource_groups:
        of_group = []
        for quotas in group.flavors:
            spec = flavors[quotas.name].spec if quotas.name in flavors else FlavorSpec()
            capacity = {resource.name: _capacity(resource, cohort=queue.cohort) for resource in quotas.resources}
            of_group.append(Flavor(name=quotas.name, spec=spec, capacity=capacity))
        groups.append(Group(resources=group.covered_resources, flavors=tuple(of_group)))
    return tuple(groups)


def _capacity(resource: ResourceQuota, *, cohort: str | None) -> Decimal:
    """Return the most that the queue can ever use. What a cohort lends is Kueue's arithmetic: it counts as unlimited
    unless the queue itself sets a limit.
    """
    nominal = quantity(resource.nominal_quota)
    if cohort is None:
        return nominal
    if resource.borrowing_limit is None:
        return UNBOUNDED
    return nominal + quantity(resource.borrowing_limit)


def check_namespace_quota(quotas: Iterable[JsonObject], demand: Demand, *, context: str) -> Iterator[Problem]:
    """Yield an error if the run alone exceeds a limit, and a warning if too little is left now. Quotas
    of some pods only, by scope, are left out.
    """
    needed = _needed_resources(demand)
    for quota in quotas:
        spec, name = quota.get("spec") or {}, str(quota["metadata"]["name"])
        used = mapping(quota, "status", "used")
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for resource, limit in mapping(spec, "hard").items():
            requested, hard_limit = needed.get(resource, Decimal(0)), quantity(limit)
            free = hard_limit - quantity(used.get(resource, 0))
            if requested > free:
                yield _exceeded_quota_problem(
                    name,
                    f"{decimal_text(requested)} of {resource}",
                    free,
                    hard_limit,
                    demand,
                    context,
                    never=requested > hard_limit,
                )


def _needed_resources(demand: Demand) -> dict[str, Decimal]:
    needed = {"pods": Decimal(sum(pods.pods for pods in demand.pod_sets))}
    for pods in demand.pod_sets:
        for resource, amount in pods.requests.items():
            for name in (f"requests.{resource}", *((resource,) if resource in ("cpu", "memory") else ())):
                needed[name] = needed.get(name, Decimal(0)) + amount
    return needed


def _exceeded_quota_problem(
    name: str, requested: str, free: Decimal, hard_limit: Decimal, demand: Demand, context: str, *, never: bool
) -> Problem:
    message = (
        f"The pods of the run need {requested} together, and the ResourceQuota {name} of the namespace "
        f"{demand.namespace} has {decimal_text(free)} of {decimal_text(hard_limit)} left: only some pods would "
        "be created, and would wait for the others."
    )
    kubectl = shlex.join(("kubectl", "--context", context, "-n", demand.namespace))
    fix = f"Ask for more, or use another namespace: {kubectl} describe resourcequota {name}"
    if never:
        return RESOURCE_QUOTA.error("namespace", message, fix)
    return RESOURCE_QUOTA_IN_USE.warning("namespace", message, fix)
