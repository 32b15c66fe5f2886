"""Kubernetes' objects for tests, from the values that a test is about."""

from __future__ import annotations

from typing import Any

from xsft.cluster.evidence import Event, InvolvedObject
from xsft.cluster.objects import (
    Condition,
    EvictionCount,
    KueueSpec,
    KueueStatus,
    ObjectMetadata,
    QuotaAdmission,
    SchedulingStats,
    Workload,
)


def kube_event(reason: str, *, message: str = "", object: str = "", at: str = "") -> Event:
    kind, _, name = object.partition("/")
    about, metadata = InvolvedObject(kind=kind, name=name), ObjectMetadata(name="")
    return Event(metadata=metadata, reason=reason, written=message, involved_object=about, last_timestamp=at)


def kueue_workload(
    name: str, *, conditions: tuple[Condition, ...] = (), evictions: int = 0, cluster_queue: str = "", **spec: Any
) -> Workload:
    stats = SchedulingStats(evictions=(EvictionCount(count=evictions),))
    admission = QuotaAdmission(cluster_queue=cluster_queue or None)
    status = KueueStatus(conditions=conditions, admission=admission, scheduling_stats=stats)
    return Workload(metadata=ObjectMetadata(name=name), spec=KueueSpec(**spec), status=status)
