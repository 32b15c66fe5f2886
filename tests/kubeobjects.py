"""Kubernetes' objects for tests, from the values that a test is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec.json import Decoder

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
    typed,
)
from xsft.cluster.supply import NODE, Node

T = TypeVar("T")


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


def parsed(json: dict[str, Any], kind: Decoder[T]) -> T:
    """The object; it is named `x` unless it has a name."""
    return typed({**json, "metadata": {"name": "x", **json.get("metadata", {})}}, kind)


def parsed_nodes(nodes: Iterable[dict[str, Any]]) -> tuple[Node, ...]:
    return tuple(parsed(node, NODE) for node in nodes)
