"""Where a run went. Apart from the record, so that who only looks for runs need not load what a record is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ClusterAddress:
    """Where a run went: project, zone and cluster, or a kubeconfig context."""

    project: str | None = None
    zone: str | None = None
    cluster: str | None = None
    context: str | None = None
