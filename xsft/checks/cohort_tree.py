"""Computes what a ClusterQueue may use below its cohorts, by Kueue's own arithmetic. Pure.

source: kueue@v0.16.2 pkg/cache/scheduler/resource_node.go: SubtreeQuota, localQuota, available, potentialAvailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from msgspec import Struct

from xsft.base.aliases import JsonObject
from xsft.checks.demand import quantity

FlavorResource = tuple[str, str]
"""Names of a flavor and of a resource."""
NONE = Decimal(0)


class QuotaNode(Struct, frozen=True, kw_only=True):
    """A ClusterQueue, or a cohort with all that is below it."""

    name: str
    own: JsonObject
    """Empty for a cohort without an object."""
    below: tuple[QuotaNode, ...] = ()

    def limit(self, key: FlavorResource, name: str) -> Decimal | None:
        """Return `nominalQuota`, `borrowingLimit` or `lendingLimit`; None if it is not set."""
        for group in (self.own.get("spec") or {}).get("resourceGroups") or ():
            for flavor in group.get("flavors") or ():
                for resource in flavor.get("resources") or ():
                    if (flavor.get("name"), resource.get("name")) == key and resource.get(name) is not None:
                        return quantity(resource[name])
        return None

    def quota(self, key: FlavorResource) -> Decimal:
        """Return its own quota, and what the nodes below lend."""
        lent = (one.quota(key) - one.kept_quota(key) for one in self.below)
        return sum(lent, self.limit(key, "nominalQuota") or NONE)

    def kept_quota(self, key: FlavorResource) -> Decimal:
        """Return what it does not lend."""
        lends = self.limit(key, "lendingLimit")
        return NONE if lends is None else max(NONE, self.quota(key) - lends)

    def used_quota(self, key: FlavorResource) -> Decimal:
        """Return what a queue has reserved; of a cohort, what the nodes below use beyond what they keep."""
        return sum(
            (max(NONE, one.used_quota(key) - one.kept_quota(key)) for one in self.below),
            _reserved_by_queue(self.own, key),
        )

    def queues(self) -> Iterator[str]:
        """Yield the names of the ClusterQueues."""
        if not self.below:
            yield self.name
        for one in self.below:
            yield from one.queues()


QuotaPath = tuple[QuotaNode, ...]
"""The nodes from the topmost cohort down to a ClusterQueue."""


def path_to(queue: JsonObject, members: tuple[JsonObject, ...]) -> QuotaPath:
    """Return the path. `members`: ClusterQueues that have a cohort, and Cohorts; also of other trees."""
    cohorts = {one["metadata"]["name"]: one for one in members if cohort_name(one) is None}
    names: list[str] = []
    name = cohort_name(queue)
    while name and name not in names:
        names.append(name)
        name = _parent_name(cohorts.get(name, {}))
    above = tuple(_cohort(name, cohorts, members, seen=frozenset()) for name in reversed(names))
    return (*above, QuotaNode(name=queue["metadata"]["name"], own=queue))


def most_usable(path: QuotaPath, key: FlavorResource) -> Decimal:
    """Return the most that the last node can ever use."""
    *above, node = path
    if not above:
        return node.quota(key)
    borrowing = node.limit(key, "borrowingLimit")
    with_cohort = node.kept_quota(key) + most_usable(tuple(above), key)
    return with_cohort if borrowing is None else min(node.quota(key) + borrowing, with_cohort)


def available(path: QuotaPath, key: FlavorResource) -> Decimal:
    """Return what the last node can use now; negative if more is in use than its quota."""
    *above, node = path
    if not above:
        return node.quota(key) - node.used_quota(key)
    of_cohort, borrowing, kept = available(tuple(above), key), node.limit(key, "borrowingLimit"), node.kept_quota(key)
    if borrowing is not None:
        of_cohort = min(of_cohort, node.quota(key) - kept - max(NONE, node.used_quota(key) - kept) + borrowing)
    return max(NONE, kept - node.used_quota(key)) + of_cohort


def cohort_name(queue: JsonObject) -> str | None:
    """Return the cohort of a ClusterQueue. source: Kueue's `cohort` (v1beta1), `cohortName` (v1beta2)."""
    spec = queue.get("spec") or {}
    return spec.get("cohort") or spec.get("cohortName") or None


def _parent_name(cohort: JsonObject) -> str | None:
    """Return the cohort above a Cohort. source: Kueue's `parent` (v1alpha1), `parentName` (since v1beta1)."""
    spec = cohort.get("spec") or {}
    return spec.get("parentName") or spec.get("parent") or None


def _cohort(
    name: str, cohorts: dict[str, JsonObject], members: tuple[JsonObject, ...], *, seen: frozenset[str]
) -> QuotaNode:
    """Return the cohort. `seen`: those above it, because Kueue stores a cycle and only stops to admit in it."""
    seen |= {name}
    children = (one for one, cohort in cohorts.items() if _parent_name(cohort) == name and one not in seen)
    queues = (one for one in members if cohort_name(one) == name)
    return QuotaNode(
        name=name,
        own=cohorts.get(name, {}),
        below=(
            *(_cohort(one, cohorts, members, seen=seen) for one in children),
            *(QuotaNode(name=one["metadata"]["name"], own=one) for one in queues),
        ),
    )


def _reserved_by_queue(queue: JsonObject, key: FlavorResource) -> Decimal:
    """Return what a ClusterQueue has reserved of a flavor's resource; nothing for a Cohort."""
    status = queue.get("status") or {}
    for flavor in status.get("flavorsReservation") or status.get("flavorsUsage") or ():
        for resource in flavor.get("resources") or ():
            if (flavor.get("name"), resource.get("name")) == key:
                return quantity(resource.get("total", 0))
    return NONE
