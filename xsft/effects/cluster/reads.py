"""What is read from a cluster to learn how its runs are: lists, reduced object by object.

What reduces them is loaded when the first object is there: a question has been asked before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from xsft.effects.cluster import resources as kinds
from xsft.effects.cluster.api import Api
from xsft.effects.cluster.errors import Ask
from xsft.effects.cluster.resources import Resource
from xsft.errors import EnvironmentMissing

if TYPE_CHECKING:
    from xsft.reading.queue import Holding, Owned, Waiting
    from xsft.states.evidence import Event
    from xsft.states.model import JobSet, Pod

T = TypeVar("T")

FROM_CACHE = {"resourceVersion": "0"}
"""The API server's watch cache as it is: up to seconds old, and without a look at 64,000 pods in etcd.

source: kubernetes.io/docs/reference/using-api/api-concepts, "resourceVersion parameter".
"""
MAX_EVENTS = 1000
VERSIONS = ("v1beta2", "v1beta1")
"""Of Kueue's groups, to read: the newer one is stored and needs no conversion, the older one old releases have."""


class Reads(Struct, frozen=True):
    """Each raises Unreachable (no answer, login, permission) and EnvironmentMissing (not installed), as `Cluster`."""

    api: Api

    def jobsets(self, *, namespace: str, selector: str = "") -> tuple[JobSet, ...]:
        """Of runs: xsft's, xpk's, and whatever else asks for TPUs."""
        found = self.api.reduced(kinds.JOBSETS, _run, namespace=namespace, query=_query(labels=selector))
        return tuple(one for one in found if one is not None)

    def jobset(self, *, name: str, namespace: str) -> JobSet | None:
        """By its exact name; None where there is none."""
        from xsft.reading.jobsets import jobset_of

        found = self.api.get(kinds.JOBSETS, name=name, namespace=namespace)
        return None if found is None else jobset_of(found)

    def workloads(self, *, namespace: str) -> tuple[Owned, ...]:
        """Kueue's; empty where Kueue is not installed."""

        def listed(version: str) -> tuple[Owned, ...]:
            return self.api.reduced(kinds.kueue("workloads", version=version), _owned, namespace=namespace)

        return self._kueue(listed) or ()

    def pods(self, *, namespace: str, labels: str, fields: str = "") -> tuple[Pod, ...]:
        query = _query(labels=labels, fields=fields)
        return self.api.reduced(kinds.PODS, _pod, namespace=namespace, query=query)

    def cached_pods(self, *, namespace: str, labels: str, fields: str = "") -> tuple[Pod, ...]:
        """As `pods`, a little old and cheap on a full cluster."""
        query = {**_query(labels=labels, fields=fields), **FROM_CACHE}
        return self.api.reduced(kinds.PODS, _pod, namespace=namespace, query=query)

    def waiting(self, *, namespace: str, queue: str) -> tuple[Waiting, ...] | None:
        """Who waits in the LocalQueue; None where Kueue does not tell (its visibility API is not served)."""
        return self._kueue(lambda version: self._waiting(version, namespace, queue))

    def holdings(self, *, namespace: str | None) -> tuple[Holding, ...]:
        """Workloads that hold quota; of all namespaces where none is given."""
        from xsft.reading.queue import holding_of

        def listed(version: str) -> tuple[Holding | None, ...]:
            return self.api.reduced(kinds.kueue("workloads", version=version), holding_of, namespace=namespace)

        return tuple(one for one in self._kueue(listed) or () if one is not None)

    def events(self, *, namespace: str, fields: str) -> tuple[Event, ...]:
        """The server keeps them for an hour."""
        from xsft.reading.events import event_of

        query = {**_query(fields=fields), "limit": str(MAX_EVENTS)}
        return self.api.reduced(kinds.EVENTS, event_of, namespace=namespace, query=query)

    def _waiting(self, version: str, namespace: str, queue: str) -> tuple[Waiting, ...]:
        resource: Resource = kinds.pending_workloads(version)
        ask = Ask(verb="get", resource=resource, namespace=namespace, name=queue)
        reply = self.api.question(ask)
        if reply.status == 404 and not reply.not_served:
            return ()  # there is no such queue
        if not reply.ok:
            raise self.api.failed(reply, ask)
        from xsft.reading.lenient import rows
        from xsft.reading.queue import waiting_of

        return tuple(waiting_of(row) for row in rows(reply.body.get("items")))

    def _kueue(self, ask: Callable[[str], T]) -> T | None:
        for version in VERSIONS:
            try:
                return ask(version)
            except EnvironmentMissing:
                continue
        return None


def _run(json: Any) -> JobSet | None:
    from xsft.reading.jobsets import jobset_of, trains

    return jobset_of(json) if trains(json) else None


def _owned(json: Any) -> Owned:
    from xsft.reading.queue import owned

    return owned(json)


def _pod(json: Any) -> Pod:
    from xsft.reading.pods import pod_of

    return pod_of(json)


def _query(*, labels: str = "", fields: str = "") -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
