"""The actions of a cluster's users, administrator and controllers besides xsft."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Protocol

Json = dict[str, Any]
Right = tuple[str, str]
"""Verb and plural."""

GROUPS = {
    "jobsets": "jobset.x-k8s.io",
    "jobs": "batch",
    "localqueues": "kueue.x-k8s.io",
    "clusterqueues": "kueue.x-k8s.io",
    "resourceflavors": "kueue.x-k8s.io",
    "admissionchecks": "kueue.x-k8s.io",
    "configmaps": "",
    "priorityclasses": "scheduling.k8s.io",
    "namespaces": "",
    "nodes": "",
    "secrets": "",
    "pods": "",
    "serviceaccounts": "",
    "deployments": "apps",
    "workloads": "kueue.x-k8s.io",
}
"""API group of each kind that xsft touches."""
EVERY: frozenset[Right] = frozenset(product(("get", "list", "create"), GROUPS))


class World(Protocol):
    """One test's part of a cluster, a namespace mostly: the stand-in's, or a real one."""

    @property
    def namespace(self) -> str: ...

    @property
    def user(self) -> str:
        """Whom the cluster takes us for."""
        ...

    def jobsets(self) -> dict[str, Json]:
        """Return the namespace's JobSets by name, in the order of creation."""
        ...

    def secrets(self) -> dict[str, Json]: ...

    def end(self, jobset: str, how: str) -> None:
        """Make the JobSet Completed or Failed for good."""
        ...

    def delete(self, jobset: str) -> None:
        """Delete the JobSet, as by hand or by its TTL; returns when it is gone."""
        ...

    def add_jobset(self, name: str, *, labels: dict[str, str] | None = None) -> None:
        """Add a JobSet of another owner."""
        ...

    def relabel(self, jobset: str, labels: dict[str, str]) -> None:
        """Change the labels, as a policy of the cluster might."""
        ...

    def unqueue(self, jobset: str) -> None:
        """Suspend it and take it out of its queue."""
        ...

    def add_unmanaged_secret(self, name: str, data: dict[str, str]) -> None:
        """Add a Secret without managedFields."""
        ...

    def limit_chips(self, chips: int) -> None:
        """Limit the queue to so many chips."""
        ...

    def remove_priority(self, name: str) -> None: ...

    def grant(self, rules: Sequence[Json]) -> None:
        """RBAC rules: from now on these are all that the user may do."""
        ...


def rules_of(rights: Iterable[Right]) -> list[Json]:
    """Return the rules as RBAC writes them."""
    return [{"apiGroups": [GROUPS[plural]], "resources": [plural], "verbs": [verb]} for verb, plural in sorted(rights)]


def deny(world: World, *rights: Right) -> None:
    """The user may do all that xsft does but these."""
    world.grant(rules_of(EVERY - set(rights)))
