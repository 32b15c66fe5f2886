"""Kueue's objects: what a state depends on. Pure.

Both served versions (v1beta1, v1beta2) have these fields under the same names. source: kueue@v0.16.1
apis/kueue/{v1beta1,v1beta2}/workload_types.go, apis/visibility/v1beta2/types.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import field
from msgspec.json import Decoder
from msgspec.structs import replace

from xsft.base.aliases import JsonObject
from xsft.base.errors import Unreachable
from xsft.base.lenient import count, mapping, rows, text
from xsft.cluster.evidence import Quota
from xsft.cluster.objects import ConditionsStatus, KubernetesStruct, ObjectMetadata, typed
from xsft.cluster.observation import Condition, KueueWorkload

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload with the UID of its JobSet. source: kueue@v0.16.2 pkg/controller/constants/constants.go"""


class PodSetAssignment(KubernetesStruct, frozen=True, kw_only=True):
    resource_usage: dict[str, Any] = field(default_factory=dict)


class QuotaAdmission(KubernetesStruct, frozen=True, kw_only=True):
    cluster_queue: str | None = None
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class EvictionCount(KubernetesStruct, frozen=True, kw_only=True):
    count: int = 0


class SchedulingStats(KubernetesStruct, frozen=True, kw_only=True):
    evictions: tuple[EvictionCount, ...] = ()


class KueueSpec(KubernetesStruct, frozen=True, kw_only=True):
    queue_name: str | None = None
    priority: int | None = None
    active: bool = True


class KueueStatus(ConditionsStatus, frozen=True, kw_only=True):
    admission: QuotaAdmission = QuotaAdmission()
    scheduling_stats: SchedulingStats = SchedulingStats()


class Workload(KubernetesStruct, frozen=True, kw_only=True):
    metadata: ObjectMetadata
    spec: KueueSpec = KueueSpec()
    status: KueueStatus = KueueStatus()


class PendingWorkload(KubernetesStruct, frozen=True, kw_only=True):
    """A Workload in Kueue's visibility API."""

    metadata: ObjectMetadata
    priority: int = 0
    local_queue_name: str = ""
    position_in_local_queue: int = 0
    """0 is next."""


WORKLOAD = Decoder(Workload)
PENDING_WORKLOAD = Decoder(PendingWorkload)


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


def workload_of(workload: Workload) -> KueueWorkload:
    metadata, status, owner = workload.metadata, workload.status, workload.metadata.jobset_owner
    holds_quota = _is_true(status.conditions, "QuotaReserved") and not _is_true(status.conditions, "Finished")
    return KueueWorkload(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        owner_uid=owner.uid if owner else "",
        jobset=owner.name if owner else None,
        conditions=status.conditions,
        active=workload.spec.active,
        queue=workload.spec.queue_name or None,
        cluster_queue=status.admission.cluster_queue if holds_quota else None,
        priority=workload.spec.priority,
        evictions=sum(eviction.count for eviction in status.scheduling_stats.evictions),
        holds=_accelerators(status.admission) if holds_quota else "",
    )


def parse_workload(json: JsonObject) -> KueueWorkload | None:
    """Return the Workload of a dictionary; None if it has another shape."""
    try:
        return workload_of(typed(json, WORKLOAD))
    except Unreachable:
        return None


def _accelerators(admission: QuotaAdmission) -> str:
    """Return the accelerators that it holds, `512 google.com/tpu`; other quantities (cpu in milli, memory with units)
    are not accelerators.
    """
    used: dict[str, int] = defaultdict(int)
    for pod_set in admission.pod_set_assignments:
        for resource, amount in pod_set.resource_usage.items():
            used[resource] += count(amount)
    return ", ".join(f"{amount} {resource}" for resource, amount in sorted(used.items()) if amount and "/" in resource)


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
