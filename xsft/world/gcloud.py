"""Parses gcloud's output about a project. Pure; nothing raises.

source: gcloud prints the REST resources: cloud.google.com/kubernetes-engine/docs/reference/rest/v1
projects.locations.clusters (Cluster, NodePool) and cloud.google.com/artifact-registry/docs/reference/rest/v1
projects.locations.repositories; cloud.google.com/sdk/gcloud/reference/storage/buckets/list and config/list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from xsft.base.aliases import JsonObject
from xsft.base.lenient import count, mapping, rows, text
from xsft.catalog.tpu import slice_on


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
    return tuple(_registry_names(listed))


def project_of(config: Any) -> str | None:
    """Return the project of `gcloud config list`."""
    return text(mapping(config, "core").get("project")) if isinstance(config, dict) else None


def _registry_names(listed: Iterable[JsonObject]) -> Iterator[str]:
    for row in listed:
        match (text(row.get("name")) or "").split("/"):
            case ["projects", project, "locations", region, "repositories", name] if row.get("format") == "DOCKER":
                yield f"{region}-docker.pkg.dev/{project}/{name}"


def _count_pool_slices(pools: Iterable[JsonObject]) -> dict[str, int]:
    """Return slices by TPU type. A pool of a slice of several hosts is one slice; a host of one-host slices is one."""
    found: Counter[str] = Counter()
    for pool in pools:
        machine = text(mapping(pool, "config").get("machineType")) or ""
        shape = slice_on(machine, text(mapping(pool, "placementPolicy").get("tpuTopology")))
        if shape is not None:
            zones = max(1, len(pool.get("locations") or ()))
            found[shape.tpu_type] += count(pool.get("initialNodeCount")) * zones // shape.hosts
    return dict(found)
