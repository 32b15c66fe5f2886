"""Reads what a cluster has for runs: its slices and their users, the quota, and the versions of its controllers."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from xsft.checks.admission import UnreadFact
from xsft.checks.controllers import CONTROLLERS, Controller, version_of
from xsft.cluster.cluster import Cluster
from xsft.cluster.objects import Quota
from xsft.cluster.supply import TPU, TpuSupply, supplies
from xsft.launch.admission import unless_forbidden
from xsft.machine.parallel import StartedCall, start


class QueueQuota(Struct, frozen=True, kw_only=True):
    """Quota of one ClusterQueue for TPU chips."""

    queue: str
    cohort: str | None
    quotas: tuple[Quota, ...]


class PlaceView(Struct, frozen=True, kw_only=True):
    """A cluster at one moment."""

    context: str
    versions: dict[str, str | None]
    """Version of Kubernetes, JobSet and Kueue; None if it could not be read."""
    slices: tuple[TpuSupply, ...]
    queues: tuple[QueueQuota, ...]
    unread: tuple[str, ...] = ()
    """What could not be read, why, and what is therefore unknown."""


def view_place(cluster: Cluster, *, namespace: str) -> PlaceView:
    """Return the view; `namespace` is the one whose Workloads are read if those of all namespaces may not be.

    Raises as `Cluster` does, except for what this login may not read.
    """
    calls: dict[str, StartedCall[Any]] = {
        "nodes": start(partial(unless_forbidden, cluster.tpu_nodes)),
        "workloads": start(partial(unless_forbidden, cluster.reads.workloads, namespace=None)),
        "flavors": start(partial(unless_forbidden, cluster.resource_flavors)),
        "queues": start(partial(unless_forbidden, cluster.cluster_queues)),
    }
    versions = start(lambda: _versions(cluster))
    found = {name: call.result() for name, call in calls.items()}
    unread = tuple(
        f"{what.why.rstrip('.')}: {UNKNOWN[name]}." for name, what in found.items() if isinstance(what, UnreadFact)
    )
    if isinstance(found["workloads"], UnreadFact):
        found["workloads"] = unless_forbidden(cluster.reads.workloads, namespace=namespace)
        unread = (*unread, f"Only Workloads of the namespace {namespace} were read.")
    workloads = found.pop("workloads")
    items = {name: () if isinstance(what, UnreadFact) else what for name, what in found.items()}
    flavors = {flavor.name: flavor for flavor in items["flavors"]}
    return PlaceView(
        context=cluster.context,
        versions=versions.result(),
        slices=supplies(items["nodes"], () if isinstance(workloads, UnreadFact) else workloads.objects, flavors),
        queues=tuple(
            QueueQuota(
                queue=queue.name,
                cohort=queue.cohort,
                quotas=tuple(quota for quota in queue.quotas if quota.resource == TPU),
            )
            for queue in items["queues"]
        ),
        unread=unread,
    )


def _versions(cluster: Cluster) -> dict[str, str | None]:
    images = {name: _version(cluster, where) for name, where in CONTROLLERS.items()}
    return {"Kubernetes": cluster.kubernetes_version(), **images}


def _version(cluster: Cluster, where: Controller) -> str | None:
    """Return the controller's release; None without the Deployment, a tag, or the permission."""
    found = unless_forbidden(cluster.deployment, name=where.deployment, namespace=where.namespace)
    return version_of(found) if isinstance(found, dict) else None


UNKNOWN = {
    "nodes": "the number of slices is unknown",
    "workloads": "the use of slices by other namespaces is unknown",
    "flavors": "the TPU type of what is in use is unknown",
    "queues": "the quota is unknown",
}
