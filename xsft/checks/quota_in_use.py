"""Check whether the queue and its cohorts have enough quota left to admit a JobSet now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from msgspec import Struct

from xsft.base.acceptance import LateProblem
from xsft.base.aliases import JsonObject
from xsft.base.lenient import mapping, rows, text
from xsft.base.problems import Problem
from xsft.checks.cohort_tree import QuotaPath, available, path_to
from xsft.checks.demand import TPU, Demand, PodSet, decimal_text, quantity
from xsft.checks.quota import Flavor, Group, groups_of
from xsft.cluster.queue_fields import owner_field, workload_of

QUOTA_IN_USE = LateProblem(id="quota-in-use")

SHOWN = 5
"""Number of runs that a message lists."""


class QuotaHolder(Struct, frozen=True, kw_only=True):
    """A Workload that holds quota, and how much of each flavor."""

    name: str
    """Name of its JobSet; of the Workload itself if it has none."""
    namespace: str
    cluster_queue: str
    used: Mapping[tuple[str, str], Decimal]
    """Amount by flavor and resource."""


class Shortage(Struct, frozen=True, kw_only=True):
    """A resource that no flavor has enough of now."""

    pods: str
    resource: str
    asked: Decimal
    flavor: str
    free: Decimal
    total: Decimal


class QuotaState(Struct, frozen=True, kw_only=True):
    """A ClusterQueue, and the queues and cohorts that share quota with it, as for `path_to`."""

    queue: JsonObject
    cohort: tuple[JsonObject, ...]

    @property
    def path(self) -> QuotaPath:
        return path_to(self.queue, self.cohort)

    def free(self, flavor: Flavor, resource: str) -> Decimal:
        return available(self.path, (flavor.name, resource))


def shortages(state: QuotaState, flavors: Mapping[str, JsonObject], demand: Demand) -> tuple[Shortage, ...]:
    """Return what the queue lacks now but could give later; empty if it admits the run now, or never can. A group
    with a flavor that could not be read is not checked.
    """
    groups = groups_of(state.queue, flavors, cohort=state.cohort)
    known = [group for group in groups if all(flavor.name in flavors for flavor in group.flavors)]
    found = (_shortage(state, group, pods) for pods in demand.pod_sets for group in known)
    return tuple(one for one in found if one is not None)


def in_use_problems(
    shorts: Iterable[Shortage], state: QuotaState, holders: tuple[QuotaHolder, ...] | None, *, context: str
) -> Iterator[Problem]:
    """Yield a warning per shortage. `holders`: the Workloads that hold quota; None if they may not be read."""
    for short in shorts:
        unit = "chips" if short.resource == TPU else short.resource
        *cohorts, queue = (node.name for node in state.path)
        shared = " below ".join(reversed(cohorts))
        where = f"ClusterQueue {queue}{f' (cohort {shared})' if shared else ''}"
        message = (
            f"The run would wait now: {short.pods} requests {decimal_text(short.asked)} {unit}, and the {where} has"
            f" {decimal_text(max(short.free, Decimal(0)))} of {decimal_text(short.total)} left in flavor"
            f" {short.flavor}."
            f"{_held_by(short, state, holders)}"
        )
        fix = f"It starts when enough of it is free. See all slices: `xsft place show --context {context}`."
        yield QUOTA_IN_USE.warning("queue", message, fix)


def quota_holder_of(workload: JsonObject) -> QuotaHolder | None:
    """Return the JobSet that holds quota by this Workload of Kueue; None if it holds none."""
    parsed = workload_of(workload)
    if parsed.cluster_queue is None:
        return None
    used: dict[tuple[str, str], Decimal] = {}
    for pod_set in rows(mapping(workload, "status", "admission").get("podSetAssignments")):
        for resource, amount in mapping(pod_set, "resourceUsage").items():
            key = (str(mapping(pod_set, "flavors").get(resource)), str(resource))
            used[key] = used.get(key, Decimal(0)) + quantity(amount)
    return QuotaHolder(
        name=owner_field(workload, "name") or parsed.name,
        namespace=text(mapping(workload, "metadata").get("namespace")) or "",
        cluster_queue=parsed.cluster_queue,
        used=used,
    )


def _shortage(state: QuotaState, group: Group, pods: PodSet) -> Shortage | None:
    requested = {name: pods.requests[name] for name in group.resources if pods.requests.get(name)}
    possible = [
        f
        for f in group.matching_flavors(pods)
        if all(f.capacity.get(name, 0) >= many for name, many in requested.items())
    ]
    if any(all(state.free(flavor, name) >= many for name, many in requested.items()) for flavor in possible):
        return None
    for resource, amount in requested.items() if possible else ():
        most = max(possible, key=lambda flavor: state.free(flavor, resource))
        free, total = state.free(most, resource), most.capacity[resource]
        if free < amount:
            return Shortage(pods=pods.name, resource=resource, asked=amount, flavor=most.name, free=free, total=total)
    return None


def _held_by(short: Shortage, state: QuotaState, holders: tuple[QuotaHolder, ...] | None) -> str:
    if holders is None:
        return " The holders of the rest are unknown: your login may not list Workloads in all namespaces."
    key, queues = (short.flavor, short.resource), set(state.path[0].queues())
    mine = [one for one in holders if one.cluster_queue in queues and one.used.get(key)]
    ordered = sorted(mine, key=lambda one: (-one.used[key], one.name))
    texts = [f"{one.name} in {one.namespace} ({decimal_text(one.used[key])})" for one in ordered[:SHOWN]]
    more = [f"{len(mine) - SHOWN} more"] if len(mine) > SHOWN else []
    return f" In use by: {', '.join((*texts, *more))}." if texts else ""
