"""Finds what a new place can name: clusters, buckets and registries by gcloud, and what a cluster has for runs.

What gcloud prints is parsed without raising. source: gcloud prints the REST resources: cloud.google.com/kubernetes-
engine/docs/reference/rest/v1 projects.locations.clusters (Cluster, NodePool) and cloud.google.com/artifact-
registry/docs/reference/rest/v1 projects.locations.repositories;
cloud.google.com/sdk/gcloud/reference/storage/buckets/list and config/list.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.base.errors import ClusterMissing, XsftError
from xsft.base.lenient import JsonObject, count, mapping, object_name, rows, text
from xsft.base.problems import Problem, error, namespace_missing
from xsft.base.secrets import redact
from xsft.catalog.tpu import slice_on
from xsft.checks.admission import UnreadFact
from xsft.cluster.access import context_names, kubeconfig_files
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import last_net
from xsft.cluster.supply import supplies
from xsft.launch.admission import unless_forbidden
from xsft.machine.parallel import StartedCall, start
from xsft.machine.process import own_environment
from xsft.spec.place import Place
from xsft.world.check import PlaceProbe
from xsft.world.tools import LATE, RunTool, run_tool

LISTS = {
    "clusters": ("container", "clusters", "list"),
    "buckets": ("storage", "buckets", "list"),
    "registries": ("artifacts", "repositories", "list"),
}
"""gcloud's lists of a project."""


class GkeCluster(Struct, frozen=True, kw_only=True):
    """A GKE cluster of a project."""

    name: str
    location: str
    """Zone or region."""
    status: str
    """`RUNNING` if it can be used."""
    slices: dict[str, int]
    """TPU type to its number of slices at the initial size of the node pools, which is what GKE lists."""


def clusters_of(listed: Iterable[JsonObject]) -> tuple[GkeCluster, ...]:
    """Return the clusters of `gcloud container clusters list`."""
    return tuple(
        GkeCluster(
            name=text(row.get("name")) or "?",
            location=text(row.get("location")) or text(row.get("zone")) or "?",
            status=text(row.get("status")) or "?",
            slices=_count_pool_slices(rows(row.get("nodePools"))),
        )
        for row in listed
    )


def buckets_of(listed: Iterable[JsonObject]) -> tuple[str, ...]:
    """Return `gs://BUCKET` of each row of `gcloud storage buckets list`."""
    return tuple(f"gs://{name}" for row in listed if (name := text(row.get("name"))))


def registries_of(listed: Iterable[JsonObject]) -> tuple[str, ...]:
    """Return `REGION-docker.pkg.dev/PROJECT/NAME` of each Docker repository of `gcloud artifacts repositories list`."""
    registries = []
    for row in listed:
        match (text(row.get("name")) or "").split("/"):
            case ["projects", project, "locations", region, "repositories", name] if row.get("format") == "DOCKER":
                registries.append(f"{region}-docker.pkg.dev/{project}/{name}")
            case _:
                pass  # a repository of another format, such as Maven's
    return tuple(registries)


def project_of(config: Any) -> str | None:
    """Return the project of `gcloud config list`."""
    return text(mapping(config, "core").get("project")) if isinstance(config, dict) else None


def _count_pool_slices(pools: Iterable[JsonObject]) -> dict[str, int]:
    """Return slices by TPU type. A pool of a slice of several hosts is one slice; a host of one-host slices is one."""
    slices: Counter[str] = Counter()
    for pool in pools:
        machine = text(mapping(pool, "config").get("machineType")) or ""
        shape = slice_on(machine, text(mapping(pool, "placementPolicy").get("tpuTopology")))
        if shape is not None:
            zones = max(1, len(pool.get("locations") or ()))
            slices[shape.tpu_type] += count(pool.get("initialNodeCount")) * zones // shape.hosts
    return dict(slices)


class ProjectView(Struct, frozen=True, kw_only=True):
    """The clusters and the project that this machine and its gcloud know."""

    project: str | None = None
    contexts: tuple[str, ...] = ()
    """Contexts of the kubeconfig."""
    clusters: tuple[GkeCluster, ...] = ()
    buckets: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """What could not be listed, and why."""


class ClusterView(Struct, frozen=True, kw_only=True):
    """The queues and nodes of a cluster, for one namespace. Everything is empty if the cluster could not be read."""

    context: str = ""
    namespace_exists: bool = True
    queues: tuple[str, ...] = ()
    """LocalQueues."""
    priority_classes: tuple[str, ...] = ()
    slices: dict[str, int] = {}
    """TPU type to its number of slices."""
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""


def this_gcloud() -> RunTool:
    quiet = {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1", "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1"}
    return partial(run_tool, env=own_environment(**quiet))


def view_project(project: str | None, *, gcloud: RunTool) -> ProjectView:
    """Return what is found without naming a cluster; `project`: else the one that gcloud is set to."""
    contexts = context_names(kubeconfig_files(own_environment(), home=Path.home()))
    config = _gcloud(gcloud, "config", "list")
    if isinstance(config, UnreadFact):
        return ProjectView(project=project, contexts=contexts, unread=(config.why,))
    project = project or project_of(config)
    if project is None:
        why = "gcloud is set to no project (gcloud config set project ID, or --project ID)"
        return ProjectView(contexts=contexts, unread=(why,))
    calls = {name: start(partial(_list_with_gcloud, gcloud, argv, project)) for name, argv in LISTS.items()}
    lists = {name: call.result() for name, call in calls.items()}
    items = {name: () if isinstance(what, UnreadFact) else what for name, what in lists.items()}
    return ProjectView(
        project=project,
        contexts=contexts,
        clusters=clusters_of(items["clusters"]),
        buckets=buckets_of(items["buckets"]),
        registries=registries_of(items["registries"]),
        unread=tuple(
            f"the {name} of {project}: {what.why}" for name, what in lists.items() if isinstance(what, UnreadFact)
        ),
    )


def list_clusters(project: str, *, gcloud: RunTool) -> tuple[GkeCluster, ...] | UnreadFact:
    rows_or_why = _list_with_gcloud(gcloud, LISTS["clusters"], project)
    return rows_or_why if isinstance(rows_or_why, UnreadFact) else clusters_of(rows_or_why)


def view_cluster(place: Place, *, world: PlaceProbe) -> ClusterView:
    """Return what the place's cluster has. Raises ClusterMissing if the kubeconfig or Google Cloud has no such
    cluster.
    """
    try:
        with last_net(place.context or place.cluster or ""):
            return _viewed(world.connect(place), namespace=place.namespace)
    except ClusterMissing:
        raise
    except XsftError as failed:
        return ClusterView(unread=(f"The cluster was not read: {failed.message}",))


def verify(place: Place, view: ClusterView, *, world: PlaceProbe) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Return the problems of the place that the cluster and the bucket show, and what could not be verified."""
    bucket, notes = _bucket_problems(place.output, world)
    return (*_cluster_problems(place, view), *bucket), (*view.unread, *notes)


def _viewed(cluster: Cluster, *, namespace: str) -> ClusterView:
    calls: dict[str, StartedCall[Any]] = {
        "namespace": start(partial(unless_forbidden, cluster.namespace, namespace)),
        "queues": start(partial(unless_forbidden, cluster.local_queues, namespace=namespace)),
        "priority_classes": start(partial(unless_forbidden, cluster.priority_classes)),
        "nodes": start(partial(unless_forbidden, cluster.tpu_nodes)),
    }
    answers = {name: call.result() for name, call in calls.items()}
    objects = {name: () if isinstance(answer, UnreadFact) else answer for name, answer in answers.items()}
    return ClusterView(
        context=cluster.context,
        namespace_exists=answers["namespace"] is not None,
        queues=tuple(queue.name for queue in objects["queues"]),
        priority_classes=tuple(
            name for name in map(object_name, objects["priority_classes"]) if not name.startswith("system-")
        ),
        slices={supply.tpu_type: supply.total for supply in supplies(objects["nodes"], (), {})},
        unread=tuple(answer.why for answer in answers.values() if isinstance(answer, UnreadFact)),
    )


def _cluster_problems(place: Place, view: ClusterView) -> Iterator[Problem]:
    if not view.namespace_exists:
        yield namespace_missing(place.namespace, view.context)
    elif not view.unread and place.queue not in view.queues:
        queues = ", ".join(view.queues) or "none"
        yield error(
            "queue-missing",
            "queue",
            f"The namespace {place.namespace} has no LocalQueue {place.queue}. Known: {queues}.",
            f"Use one of them with --queue, or ask the administrator to create {place.queue}.",
        )


def _bucket_problems(output: str | None, world: PlaceProbe) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    try:
        return (world.writable(output) if output else ()), ()
    except XsftError as failed:
        return (), (f"The bucket was not read: {failed.message}",)


def _list_with_gcloud(gcloud: RunTool, argv: tuple[str, ...], project: str) -> Any:
    answer = _gcloud(gcloud, *argv, f"--project={project}")
    return answer if isinstance(answer, UnreadFact) else rows(answer)


def _gcloud(run: RunTool, *argv: str) -> Any:
    done = run(("gcloud", *argv, "--format=json", "--quiet"))
    if done is None:
        return UnreadFact(why="gcloud is not installed")
    if done.status == LATE:
        return UnreadFact(why="gcloud did not answer within 20 s")
    if not done.ok:
        message = next((line.strip() for line in done.stderr.splitlines() if line.strip()), "")
        return UnreadFact(why=redact(message)[:300] or f"gcloud ended with status {done.status}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        return UnreadFact(why="gcloud printed no JSON")
