"""Queues, flavours and priority classes as xpk@1.16.0 makes them, in the version it writes (v1beta1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.control_plane.nodes import Slices
from xsft.spec.place import DEFAULT_QUEUE

Json = dict[str, Any]
PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
CLUSTER_QUEUE = "cluster-queue"
CPU_FLAVOR = "cpu-user"
KUEUE = "/apis/kueue.x-k8s.io/v1beta1"
_VERSION = "kueue.x-k8s.io/v1beta1"


def queue_objects(slices: tuple[Slices, ...]) -> Iterator[tuple[str, Json]]:
    """Path and body of each."""
    for name, value in PRIORITIES.items():
        yield "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value}
    flavors = {pool.flavor: pool.labels for pool in slices} | {CPU_FLAVOR: {"cloud.google.com/gke-nodepool": "cpu-np"}}
    for name, labels in flavors.items():
        yield f"{KUEUE}/resourceflavors", _kueue("ResourceFlavor", name, {"nodeLabels": labels})
    yield f"{KUEUE}/clusterqueues", cluster_queue(CLUSTER_QUEUE, {pool.flavor: pool.chips for pool in slices})
    yield local_queue("default")


def cluster_queue(name: str, chips: dict[str, int]) -> Json:
    """`chips` by flavour. Heads have room for ten."""
    tpu = [_flavor(flavor, {"google.com/tpu": count}) for flavor, count in chips.items()]
    head = _flavor(CPU_FLAVOR, {"cpu": 480, "memory": "2000G"})
    return _kueue(
        "ClusterQueue",
        name,
        {
            "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "LowerPriority"},
            "namespaceSelector": {},
            "resourceGroups": [
                {"coveredResources": ["google.com/tpu"], "flavors": tpu},
                {"coveredResources": ["cpu", "memory"], "flavors": [head]},
            ],
        },
    )


def used(queue: Json, flavor: str) -> int:
    """Chips in use, by the status of a ClusterQueue."""
    flavors = [resource for resource in queue.get("status", {}).get("flavorsUsage", ()) if resource["name"] == flavor]
    return sum(int(resource["total"]) for flavor_use in flavors for resource in flavor_use["resources"])


def local_queue(namespace: str, *, name: str = DEFAULT_QUEUE, cluster_queue: str = CLUSTER_QUEUE) -> tuple[str, Json]:
    """Path and body."""
    path = f"{KUEUE}/namespaces/{namespace}/localqueues"
    return path, _kueue("LocalQueue", name, {"clusterQueue": cluster_queue})


def visibility_objects(port: int) -> Iterator[tuple[str, Json]]:
    """Queue positions: the API server passes this group on to Kueue, which no Service here could reach by address."""
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port, "name": "https"}]}
    yield "/api/v1/namespaces/kueue-system/services", {"metadata": {"name": "visibility-server"}, "spec": spec}
    for version in ("v1beta1", "v1beta2"):
        group = "visibility.kueue.x-k8s.io"
        service = {"name": "visibility-server", "namespace": "kueue-system", "port": port}
        yield (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            {
                "metadata": {"name": f"{version}.{group}"},
                "spec": {
                    "group": group,
                    "version": version,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": service,
                },
            },
        )


def _flavor(name: str, quotas: dict[str, int | str]) -> Json:
    return {"name": name, "resources": [{"name": what, "nominalQuota": much} for what, much in quotas.items()]}


def _kueue(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
