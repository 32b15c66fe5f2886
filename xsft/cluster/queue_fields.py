"""Parse Kueue's objects into the fields that a state depends on. Pure; nothing here raises.

Both served versions (v1beta1, v1beta2) have these fields under the same names. source: kueue@v0.16.1
apis/kueue/{v1beta1,v1beta2}/workload_types.go, apis/visibility/v1beta2/types.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.aliases import JsonObject
from xsft.base.lenient import count, integer, mapping, rows, text
from xsft.cluster.evidence import Quota
from xsft.cluster.jobset_fields import conditions_of
from xsft.cluster.observation import Condition, KueueWorkload

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload with the UID of its JobSet. source: kueue@v0.16.2 pkg/controller/constants/constants.go"""


class Owned(Struct, frozen=True, kw_only=True):
    """A Workload and the UID of the JobSet that owns it."""

    owner: str | None
    workload: KueueWorkload


class Waiting(Struct, frozen=True, kw_only=True):
    """A pending Workload, from Kueue's visibility API."""

    name: str
    namespace: str
    jobset: str | None
    """Name of its owner."""
    queue: str
    priority: int
    position: int
    """Position in its LocalQueue; 0 is next."""


class Holding(Struct, frozen=True, kw_only=True):
    """A Workload that holds quota."""

    uid: str
    owner_uid: str
    jobset: str | None
    cluster_queue: str
    priority: int | None
    holds: str
    """Accelerators held, `512 google.com/tpu`; empty for none."""


def holding_of(json: JsonObject) -> Holding | None:
    """Return the Workload if it holds quota, else None."""
    workload = workload_of(json)
    if workload.cluster_queue is None:
        return None
    used: dict[str, int] = defaultdict(int)
    for pod_set in rows(mapping(json, "status", "admission").get("podSetAssignments")):
        for resource, amount in mapping(pod_set, "resourceUsage").items():
            used[resource] += count(amount)  # other quantities (cpu in milli, memory with units) are not accelerators
    accelerators = [f"{amount} {resource}" for resource, amount in sorted(used.items()) if amount and "/" in resource]
    return Holding(
        uid=text(mapping(json, "metadata").get("uid")) or "",
        owner_uid=owner_field(json, "uid") or "",
        jobset=owner_field(json, "name"),
        cluster_queue=workload.cluster_queue,
        priority=workload.priority,
        holds=", ".join(accelerators),
    )


def quotas_of(cluster_queue: JsonObject) -> tuple[Quota, ...]:
    """Return the total and used quota of each flavor, in the queue's order."""
    used = {
        (flavor.get("name"), resource.get("name")): str(resource.get("total", "0"))
        for flavor in rows(mapping(cluster_queue, "status").get("flavorsUsage"))
        for resource in rows(flavor.get("resources"))
    }
    return tuple(
        Quota(flavor=name, resource=resource, total=total, used=used.get((name, resource), "0"))
        for name, resource, total in _nominal(cluster_queue)
    )


def _nominal(cluster_queue: JsonObject) -> Iterator[tuple[str, str, str]]:
    for group in rows(mapping(cluster_queue, "spec").get("resourceGroups")):
        for flavor in rows(group.get("flavors")):
            for resource in rows(flavor.get("resources")):
                name, kind = text(flavor.get("name")), text(resource.get("name"))
                if name and kind:
                    yield name, kind, str(resource.get("nominalQuota", "0"))


def workload_of(json: JsonObject) -> KueueWorkload:
    spec, status = mapping(json, "spec"), mapping(json, "status")
    evictions = rows(mapping(status, "schedulingStats").get("evictions"))
    active, conditions = spec.get("active"), conditions_of(status)
    holds = _is_true(conditions, "QuotaReserved") and not _is_true(conditions, "Finished")
    return KueueWorkload(
        name=text(mapping(json, "metadata").get("name")) or "",
        conditions=conditions,
        active=active if isinstance(active, bool) else True,
        queue=text(spec.get("queueName")),
        cluster_queue=text(mapping(status, "admission").get("clusterQueue")) if holds else None,
        priority=integer(spec.get("priority")),
        evictions=sum(count(row.get("count")) for row in evictions),
    )


def owned(json: JsonObject) -> Owned:
    return Owned(owner=owner_field(json, "uid"), workload=workload_of(json))


def waiting_of(json: JsonObject) -> Waiting:
    metadata = mapping(json, "metadata")
    return Waiting(
        name=text(metadata.get("name")) or "",
        namespace=text(metadata.get("namespace")) or "",
        jobset=owner_field(json, "name"),
        queue=text(json.get("localQueueName")) or "",
        priority=integer(json.get("priority")) or 0,
        position=count(json.get("positionInLocalQueue")),
    )


def with_positions(workload: KueueWorkload, positions: Mapping[str, int]) -> KueueWorkload:
    """Return the Workload with its position; `positions` has the Workloads' names as keys."""
    position = positions.get(workload.name)
    return workload if position is None else replace(workload, position=position)


def waits(workload: KueueWorkload) -> bool:
    """Return whether it is pending: its conditions show no quota and no end."""
    reserved = _is_true(workload.conditions, "QuotaReserved")
    return workload.active and not reserved and not _is_true(workload.conditions, "Finished")


def queues_of(workloads: Iterable[KueueWorkload]) -> tuple[str, ...]:
    """Return the LocalQueues in which they wait, the longest first."""
    names = [workload.queue for workload in workloads if workload.queue and waits(workload)]
    return tuple(sorted(set(names), key=lambda name: (-names.count(name), name)))


def _is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    return any(c.type == kind and c.status == "True" for c in conditions)


def owner_field(json: JsonObject, key: str) -> str | None:
    """Return a field of the JobSet among its owners; Kueue makes it the controller."""
    owners = rows(mapping(json, "metadata").get("ownerReferences"))
    return next((text(owner.get(key)) for owner in owners if owner.get("kind") == "JobSet"), None)
