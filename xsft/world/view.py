"""Reads what a cluster has for runs: its slices and their users, the quota, and the versions of its controllers."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from xsft.checks.admission import UnreadFact
from xsft.checks.controllers import CONTROLLERS, version_of
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
    answers = {name: call.result() for name, call in calls.items()}
    reasons = {name: answer.why for name, answer in answers.items() if isinstance(answer, UnreadFact)}
    unread = [f"{why.rstrip('.')}: {UNKNOWN[name]}." for name, why in reasons.items()]
    workloads = answers.pop("workloads")
    if isinstance(workloads, UnreadFact):
        workloads = unless_forbidden(cluster.reads.workloads, namespace=namespace)
        unread.append(f"Only Workloads of the namespace {namespace} were read.")
    objects = {name: () if isinstance(answer, UnreadFact) else answer for name, answer in answers.items()}
    flavors = {flavor.name: flavor for flavor in objects["flavors"]}
    return PlaceView(
        context=cluster.context,
        versions=versions.result(),
        slices=supplies(objects["nodes"], () if isinstance(workloads, UnreadFact) else workloads.objects, flavors),
        queues=tuple(
            QueueQuota(
                queue=queue.name,
                cohort=queue.cohort,
                quotas=tuple(quota for quota in queue.quotas if quota.resource == TPU),
            )
            for queue in objects["queues"]
        ),
        unread=tuple(unread),
    )


def _versions(cluster: Cluster) -> dict[str, str | None]:
    versions = {"Kubernetes": cluster.kubernetes_version()}
    for name, where in CONTROLLERS.items():
        deployment = unless_forbidden(cluster.deployment, name=where.deployment, namespace=where.namespace)
        versions[name] = version_of(deployment) if isinstance(deployment, dict) else None
    return versions


UNKNOWN = {
    "nodes": "the number of slices is unknown",
    "workloads": "the use of slices by other namespaces is unknown",
    "flavors": "the TPU type of what is in use is unknown",
    "queues": "the quota is unknown",
}
