"""Kueue's objects: what a state depends on. Pure.

Both served versions (v1beta1, v1beta2) have these fields under the same names. source: kueue@v0.16.1
apis/kueue/{v1beta1,v1beta2}/workload_types.go, apis/visibility/v1beta2/types.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.json import Decoder

from xsft.base.aliases import JsonObject
from xsft.base.lenient import count, mapping, rows, text
from xsft.cluster.objects import (
    Condition,
    ConditionsStatus,
    KubernetesObject,
    KubernetesStruct,
    Owner,
    PodTemplate,
    true_condition,
)

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload with the UID of its JobSet. source: kueue@v0.16.2 pkg/controller/constants/constants.go"""


class Quota(Struct, frozen=True, kw_only=True):
    """The quota of one resource of one flavor in the ClusterQueue; numbers as Kubernetes writes them."""

    flavor: str
    resource: str
    total: str
    used: str


class PodSetAssignment(KubernetesStruct, frozen=True, kw_only=True):
    flavors: dict[str, str] = field(default_factory=dict)
    resource_usage: dict[str, Any] = field(default_factory=dict)


class WorkloadPods(KubernetesStruct, frozen=True, kw_only=True):
    count: int = 0
    template: PodTemplate = PodTemplate()


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
    """A deactivated Workload is never admitted again automatically."""
    pod_sets: tuple[WorkloadPods, ...] = ()


class KueueStatus(ConditionsStatus, frozen=True, kw_only=True):
    admission: QuotaAdmission = QuotaAdmission()
    scheduling_stats: SchedulingStats = SchedulingStats()


class Workload(KubernetesObject, frozen=True, kw_only=True):
    spec: KueueSpec = KueueSpec()
    status: KueueStatus = KueueStatus()

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return self.status.conditions

    @property
    def owner(self) -> Owner:
        """Return the JobSet that owns it; empty without one."""
        return self.metadata.jobset_owner

    @property
    def waits(self) -> bool:
        """Return whether it is pending: its conditions show no quota and no end."""
        return self.spec.active and not self._is_true("QuotaReserved") and not self._is_true("Finished")

    @property
    def cluster_queue(self) -> str | None:
        """Return the ClusterQueue in which it has quota; None if it has none."""
        return self.admission.cluster_queue

    @property
    def evictions(self) -> int:
        return sum(eviction.count for eviction in self.status.scheduling_stats.evictions)

    @property
    def holds(self) -> str:
        """Return the accelerators that it holds, `512 google.com/tpu`; other quantities (cpu in milli, memory with
        units) are not accelerators.
        """
        used: dict[str, int] = defaultdict(int)
        for pod_set in self.admission.pod_set_assignments:
            for resource, amount in pod_set.resource_usage.items():
                used[resource] += count(amount)
        return ", ".join(f"{amount} {name}" for name, amount in sorted(used.items()) if amount and "/" in name)

    @property
    def admission(self) -> QuotaAdmission:
        """Return the quota that it has now."""
        reserved = self._is_true("QuotaReserved") and not self._is_true("Finished")
        return self.status.admission if reserved else QuotaAdmission()

    def _is_true(self, kind: str) -> bool:
        return true_condition(self.conditions, kind) is not None


class PendingWorkload(KubernetesObject, frozen=True, kw_only=True):
    """A Workload in Kueue's visibility API."""

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


def queues_of(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Return the LocalQueues in which they wait, the longest first."""
    names = [workload.spec.queue_name for workload in workloads if workload.spec.queue_name and workload.waits]
    return tuple(sorted(set(names), key=lambda name: (-names.count(name), name)))
