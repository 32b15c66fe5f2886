"""The cluster of a run. A separate module, so that listing runs need not import records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsft.spec.place import Place  # its models need pydantic


@dataclass(frozen=True, kw_only=True)
class ClusterAddress:
    """The cluster of a run: project, zone and cluster, or a kubeconfig context."""

    project: str | None = None
    zone: str | None = None
    cluster: str | None = None
    context: str | None = None

    @property
    def name(self) -> str:
        """Return the name by which the user knows the cluster: its context, or project/zone/cluster."""
        return self.context or f"{self.project}/{self.zone}/{self.cluster}"


def address_of(place: Place) -> ClusterAddress:
    """Return the cluster of a place, as records name it."""
    return ClusterAddress(project=place.project, zone=place.zone, cluster=place.cluster, context=place.context)
