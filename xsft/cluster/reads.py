"""What is read from a cluster to determine the state of its runs: lists, reduced object by object."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing
from xsft.base.lenient import rows
from xsft.cluster import resources as kinds
from xsft.cluster.api import Api
from xsft.cluster.errors import ApiRequest
from xsft.cluster.event_fields import event_of
from xsft.cluster.evidence import Event
from xsft.cluster.jobset_fields import jobset_of, run_of, server_of
from xsft.cluster.observation import Pod, RunObject
from xsft.cluster.pod_fields import pod_of
from xsft.cluster.queue_fields import Holding, Owned, Waiting, holding_of, owned, waiting_of
from xsft.cluster.resources import Resource
from xsft.machine.parallel import start
from xsft.records.labels import RUN_LABEL, SERVERS

T = TypeVar("T")

FROM_CACHE = {"resourceVersion": "0"}
"""Read from the API server's watch cache: up to seconds old, but without reading 64,000 pods from etcd. source:
kubernetes.io/docs/reference/using-api/api-concepts, "resourceVersion parameter".
"""
MAX_EVENTS = 1000
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
"""source: kubernetes.io/docs/concepts/overview/working-with-objects/labels, "Syntax and character set"."""


class Reads(Struct, frozen=True):
    """The reads. Each raises Unreachable (no answer, login, permission) and EnvironmentMissing (not installed), as
    `Cluster` does.
    """

    api: Api

    def jobsets(self, *, namespace: str) -> tuple[RunObject, ...]:
        """Return the JobSets of runs: xsft's, xpk's, and any other that requests TPUs."""
        found = self.api.reduced(kinds.JOBSETS, run_of, namespace=namespace)
        return tuple(one for one in found if one is not None)

    def jobsets_named(self, names: Collection[str], *, namespace: str) -> tuple[RunObject, ...]:
        """Return the JobSets of these runs, with one small list, and those that have one of these names: a JobSet of
        xpk, or one whose label was removed by hand, is found only by its name. (xpk's own label is that name, too.)
        """
        askable = sorted(name for name in names if LABEL_VALUE.fullmatch(name))  # else it is a folder, not a JobSet
        if not askable:
            return ()
        by_name = [start(partial(self._run_named, name, namespace=namespace)) for name in askable]
        query = _query(labels=f"{RUN_LABEL} in ({','.join(askable)})")
        labelled = self.api.reduced(kinds.JOBSETS, run_of, namespace=namespace, query=query)
        jobsets = (*labelled, *(started.result() for started in by_name))
        return tuple({jobset.uid: jobset for jobset in jobsets if jobset is not None}.values())

    def _run_named(self, name: str, *, namespace: str) -> RunObject | None:
        jobset = self.api.get(kinds.JOBSETS, name=name, namespace=namespace)
        return None if jobset is None else run_of(jobset)

    def jobset(self, *, name: str, namespace: str) -> RunObject | None:
        """Return the JobSet by its exact name, or None."""
        found = self.api.get(kinds.JOBSETS, name=name, namespace=namespace)
        return None if found is None else jobset_of(found)

    def servers(self, *, namespace: str) -> tuple[RunObject, ...]:
        """Return the Deployments of xsft's servers."""
        return self.api.reduced(kinds.DEPLOYMENTS, server_of, namespace=namespace, query=_query(labels=SERVERS))

    def again(self, held: RunObject) -> RunObject | None:
        """Return the run's object as it is now, or None."""
        if not held.serves:
            return self.jobset(name=held.name, namespace=held.namespace)
        found = self.api.get(kinds.DEPLOYMENTS, name=held.name, namespace=held.namespace)
        return None if found is None else server_of(found)

    def workloads(self, *, namespace: str, labels: str = "") -> tuple[Owned, ...]:
        """Return Kueue's Workloads; empty if Kueue is not installed."""

        def listed(version: str) -> tuple[Owned, ...]:
            resource, query = kinds.kueue("workloads", version=version), _query(labels=labels)
            return self.api.reduced(resource, owned, namespace=namespace, query=query)

        return self._kueue(listed) or ()

    def pods(self, *, namespace: str, labels: str) -> tuple[Pod, ...]:
        query = _query(labels=labels)
        return self.api.reduced(kinds.PODS, pod_of, namespace=namespace, query=query)

    def cached_pods(self, *, namespace: str, labels: str, fields: str = "") -> tuple[Pod, ...]:
        """Return the pods as `pods` does, slightly old and cheap on a full cluster."""
        query = {**_query(labels=labels, fields=fields), **FROM_CACHE}
        return self.api.reduced(kinds.PODS, pod_of, namespace=namespace, query=query)

    def waiting(self, *, namespace: str, queue: str) -> tuple[Waiting, ...] | None:
        """Return the pending workloads of the LocalQueue; None if Kueue does not serve its visibility API."""
        return self._kueue(lambda version: self._read_waiting(version, namespace, queue))

    def holdings(self, *, namespace: str | None) -> tuple[Holding, ...]:
        """Return the workloads that hold quota; in all namespaces if none is given."""

        def listed(version: str) -> tuple[Holding | None, ...]:
            return self.api.reduced(kinds.kueue("workloads", version=version), holding_of, namespace=namespace)

        return tuple(one for one in self._kueue(listed) or () if one is not None)

    def events(self, *, namespace: str, fields: str) -> tuple[Event, ...]:
        """Return the events, which the server keeps for an hour."""
        query = {**_query(fields=fields), "limit": str(MAX_EVENTS)}
        return self.api.reduced(kinds.EVENTS, event_of, namespace=namespace, query=query)

    def _read_waiting(self, version: str, namespace: str, queue: str) -> tuple[Waiting, ...]:
        resource: Resource = kinds.pending_workloads(version)
        ask = ApiRequest(verb="get", resource=resource, namespace=namespace, name=queue)
        reply = self.api.question(ask)
        if reply.status == 404 and not reply.not_served:
            return ()  # there is no such queue
        if not reply.ok:
            raise self.api.failed(reply, ask)
        return tuple(waiting_of(row) for row in rows(reply.body.get("items")))

    def _kueue(self, ask: Callable[[str], T]) -> T | None:
        for version in kinds.KUEUE_VERSIONS:
            try:
                return ask(version)
            except EnvironmentMissing:
                continue
        return None


def _query(*, labels: str = "", fields: str = "") -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
