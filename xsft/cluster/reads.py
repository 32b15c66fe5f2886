"""What is read from a cluster to determine the state of its runs: objects, and the logs of their containers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.base.lenient import JsonObject
from xsft.cluster import resources as kinds
from xsft.cluster.answers import LostAnswer, read_objects
from xsft.cluster.api import Api
from xsft.cluster.errors import ApiRequest
from xsft.cluster.evidence import EVENT, Event
from xsft.cluster.exactly_once import DRY_RUN, MANAGER, CreatedObject, DeleteOutcome, ExistingObject, create, delete
from xsft.cluster.http import ANYTHING, Stream
from xsft.cluster.jobset_fields import DEPLOYMENT, JOBSET, jobset_of, server_of
from xsft.cluster.objects import PENDING_WORKLOAD, WORKLOAD, ObjectList, PendingWorkload, Workload
from xsft.cluster.observation import RunObject
from xsft.cluster.pod_fields import POD, Pod
from xsft.machine.parallel import start
from xsft.records.jobset_paths import RUN_LABEL, SERVERS
from xsft.trainer.progress import LoggedLine, parse_logged_line

FROM_CACHE = {"resourceVersion": "0"}
"""Read from the API server's watch cache: up to seconds old, but without reading 64,000 pods from etcd. source:
kubernetes.io/docs/reference/using-api/api-concepts, "resourceVersion parameter".
"""
MAX_EVENTS = 1000
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
"""source: kubernetes.io/docs/concepts/overview/working-with-objects/labels, "Syntax and character set"."""
MAX_BYTES = 16 * 1024 * 1024
"""Limit for one log that is read at once from its beginning; a tail is far smaller."""
BUSY_OR_BROKEN = 500
NOT_STARTED = 400
"""Status if the container has not started, or there was none before it. source: kubernetes@v1.35
pkg/registry/core/pod/rest/log.go and pkg/kubelet/kubelet_pods.go validateContainerLogStatus.
"""


class Reads(Struct, frozen=True):
    """The reads. Each raises Unreachable (no answer, login, permission) and EnvironmentMissing (not installed), as
    `Cluster` does.
    """

    api: Api

    def jobsets(self, *, namespace: str, query: Mapping[str, str] | None = None) -> ObjectList[RunObject]:
        """Return the JobSets of runs: xsft's, xpk's, and any other that requests TPUs."""
        listed = self.api.listed(kinds.JOBSETS, JOBSET, namespace=namespace, query=query)
        runs = tuple(jobset_of(jobset) for jobset in listed.objects if jobset.trains)
        return ObjectList(objects=runs, bad=listed.bad)

    def jobsets_named(self, names: Collection[str], *, namespace: str) -> ObjectList[RunObject]:
        """Return the JobSets of these runs, with one small list, and those that have one of these names: a JobSet of
        xpk, or one whose label was removed by hand, is found only by its name. (xpk's own label is that name, too.)
        """
        askable = sorted(name for name in names if LABEL_VALUE.fullmatch(name))  # else it is a folder, not a JobSet
        if not askable:
            return ObjectList()
        by_name = [start(partial(self._run_named, name, namespace=namespace)) for name in askable]
        labelled = self.jobsets(namespace=namespace, query=_query(labels=f"{RUN_LABEL} in ({','.join(askable)})"))
        jobsets = (*labelled.objects, *(started.result() for started in by_name))
        unique = {jobset.uid: jobset for jobset in jobsets if jobset is not None}
        return ObjectList(objects=tuple(unique.values()), bad=labelled.bad)

    def _run_named(self, name: str, *, namespace: str) -> RunObject | None:
        jobset = self.api.typed(kinds.JOBSETS, JOBSET, name=name, namespace=namespace)
        return jobset_of(jobset) if jobset is not None and jobset.trains else None

    def servers(self, *, namespace: str) -> ObjectList[RunObject]:
        """Return the Deployments of xsft's servers."""
        listed = self.api.listed(kinds.DEPLOYMENTS, DEPLOYMENT, namespace=namespace, query=_query(labels=SERVERS))
        return ObjectList(objects=tuple(map(server_of, listed.objects)), bad=listed.bad)

    def again(self, run: RunObject) -> RunObject | None:
        """Return the run's object as it is now, or None."""
        if run.serves:
            server = self.api.typed(kinds.DEPLOYMENTS, DEPLOYMENT, name=run.name, namespace=run.namespace)
            return None if server is None else server_of(server)
        return self._run_named(run.name, namespace=run.namespace)

    def workloads(self, *, namespace: str | None, labels: str = "") -> ObjectList[Workload]:
        """Return Kueue's Workloads, in all namespaces if none is given; empty if Kueue is not installed."""
        query = _query(labels=labels)
        for version in kinds.KUEUE_VERSIONS:
            with suppress(EnvironmentMissing):
                resource = kinds.kueue("workloads", version=version)
                return self.api.listed(resource, WORKLOAD, namespace=namespace, query=query)
        return ObjectList()

    def pods(self, *, namespace: str, labels: str, fields: str = "", cached: bool = False) -> ObjectList[Pod]:
        """Return the pods; `cached`: slightly old and cheap on a full cluster."""
        query = {**_query(labels=labels, fields=fields), **(FROM_CACHE if cached else {})}
        return self.api.listed(kinds.PODS, POD, namespace=namespace, query=query)

    def pending_workloads(self, *, namespace: str, queue: str) -> tuple[PendingWorkload, ...] | None:
        """Return the pending workloads of the LocalQueue; None if Kueue does not serve its visibility API."""
        for version in kinds.KUEUE_VERSIONS:
            ask = ApiRequest(verb="get", resource=kinds.pending_workloads(version), namespace=namespace, name=queue)
            reply = self.api.question(ask, read=partial(read_objects, kind=PENDING_WORKLOAD))
            if reply.ok:
                pending: tuple[PendingWorkload, ...] = reply.body.objects
                return pending
            if reply.status != 404:
                raise self.api.failed(reply, ask)
            if not reply.not_served:
                return ()  # there is no such queue
        return None

    def events(self, *, namespace: str, fields: str) -> tuple[Event, ...]:
        """Return the events, which the server keeps for an hour."""
        query = {**_query(fields=fields), "limit": str(MAX_EVENTS)}
        return self.api.listed(kinds.EVENTS, EVENT, namespace=namespace, query=query).objects


def _query(*, labels: str = "", fields: str = "") -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


KINDS = {
    "Deployment": kinds.DEPLOYMENTS,
    "Service": kinds.SERVICES,
    "PodDisruptionBudget": kinds.DISRUPTION_BUDGETS,
}


class Servers(Struct, frozen=True):
    """Reads and creates. Each raises as `Cluster` does."""

    api: Api

    def get(self, like: JsonObject) -> JsonObject | None:
        """Return the object of the kind, name and namespace of `like`, or None."""
        metadata = like["metadata"]
        stored: JsonObject | None = self.api.get(
            KINDS[like["kind"]], name=metadata["name"], namespace=metadata["namespace"]
        )
        return stored

    def dry_run(self, body: JsonObject) -> None:
        """Have the cluster validate the object with all its webhooks; a name that is taken is no error."""
        ask = ApiRequest(verb="create", resource=KINDS[body["kind"]], namespace=body["metadata"]["namespace"])
        reply = self.api.question(ask, query={**DRY_RUN, "fieldManager": MANAGER}, body=body)
        if not reply.ok and reply.status != 409:
            raise self.api.failed(reply, ask)

    def create(self, body: JsonObject, *, mark: str | None = None) -> CreatedObject | ExistingObject:
        """Create the object once, as `Cluster.create_jobset` does."""
        return create(self.api, KINDS[body["kind"]], body, mark=mark)

    def delete(self, *, name: str, namespace: str, uid: str) -> DeleteOutcome:
        """Delete the Deployment with that UID; the Service and the budget go with it. Raises as
        `Cluster.delete_jobset`.
        """
        return delete(self.api, kinds.DEPLOYMENTS, name=name, namespace=namespace, uid=uid)

    def last_lines(self, pod: str, container: str, *, namespace: str, count: int) -> tuple[str, ...]:
        """Return the last log lines of the container before its last restart; empty if the log cannot be read."""
        ask = ContainerLogRequest(namespace=namespace, pod=pod, container=container, tail=count, previous=True)
        try:
            lines = read_log(self.api, ask)
        except Unreachable:
            return ()
        return tuple(line.text for line in lines or ())


class ContainerLogRequest(Struct, frozen=True, kw_only=True):
    namespace: str
    pod: str
    container: str | None = None
    since: str | None = None
    """RFC 3339; the kubelet uses whole seconds only, and returns all lines of that second."""
    tail: int | None = None
    """Number of last lines."""
    previous: bool = False
    """Read the log of the container before the last restart in place."""

    def query(self, *, follow: str = "false") -> dict[str, str]:
        options = {"container": self.container, "sinceTime": self.since, "tailLines": self.tail}
        named = {key: str(option) for key, option in options.items() if option is not None}
        return {"timestamps": "true", "follow": follow, "previous": str(self.previous).lower(), **named}


def read_log(api: Api, log: ContainerLogRequest) -> tuple[LoggedLine, ...] | None:
    """Return the lines so far; None if there is no such pod or its container has not started. Raises Unreachable."""
    ask = _log_request(log)
    query = log.query()
    if log.tail is None:
        query["limitBytes"] = str(MAX_BYTES)
    reply = api.question(ask, query=query, accept=ANYTHING, read=bytes)
    if reply.status in (404, NOT_STARTED):
        return None
    if not reply.ok:
        raise api.failed(reply, ask)
    lines: list[bytes] = reply.body.split(b"\n")  # as streams: a progress bar's carriage returns are in its line
    if not lines[-1]:
        lines.pop()
    return tuple(parse_logged_line(line.decode("utf-8", "replace")) for line in lines)


def open_log(
    api: Api, log: ContainerLogRequest, *, read_timeout_s: float, follow: bool = True
) -> Stream | LostAnswer | Unreachable | None:
    """Open the log, with one try; without `follow` up to its current end, of any length. Returns Lost without an
    answer, and Unreachable for an error of the cluster, if a retry may help; None if there is no such pod or it has not
    started. Raises Unreachable if a retry cannot help (login, permission).
    """
    ask = _log_request(log)
    answer = api.opened(ask, query=log.query(follow=str(follow).lower()), read_timeout_s=read_timeout_s)
    if isinstance(answer, Stream):
        return answer
    if isinstance(answer, LostAnswer):
        if answer.passes:
            return answer
        raise answer.failed()
    if answer.status in (404, NOT_STARTED):
        return None
    failed = api.failed(answer, ask)
    if isinstance(failed, Unreachable) and (answer.status == 429 or answer.status >= BUSY_OR_BROKEN):
        return failed
    raise failed


def _log_request(log: ContainerLogRequest) -> ApiRequest:
    return ApiRequest(verb="get", resource=kinds.POD_LOGS, namespace=log.namespace, name=log.pod)
