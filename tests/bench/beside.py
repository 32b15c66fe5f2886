"""Stand-ins for Kueue and the kubelets on a server without them: queue positions, and logs of a training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.control_plane import queues
from tests.control_plane.api import Cluster
from tests.control_plane.nodes import DEFAULT, nodes
from tests.faults.answer import Answer
from tests.faults.fault import Seen
from tests.faults.server import Front, served

GROUP = "visibility.kueue.x-k8s.io"
STEP_S = 21
STEPS = 1000
_LINES = (
    "{0:%Y-%m-%dT%H:%M:%S}.023456789Z Train step {1} training loss: {2:.6f}  - training perplexity: 12.120000\n",
    (
        "{0:%Y-%m-%dT%H:%M:%S}.123456789Z I1121 10:00:00.000 140142328048512 metric_logger.py:265] completed step: {1},"
        " seconds: 21.000, TFLOP/s/device: 401.101, Tokens/s/device: 1181.694, total_weights: 84120, loss: {2:.3f}\n"
    ),
)
"""What a step prints."""


@contextmanager
def serving(cluster: Cluster, namespace: str, *, done: Callable[[str], bool]) -> Iterator[None]:
    """`done`: whether the run of a pod of that name made all its steps."""
    certificate = (Path(cluster.layout.certificate("server.crt")), Path(cluster.layout.certificate("server.key")))
    waiting = _waiting(cluster, namespace)

    def answer(request: Seen) -> Answer:
        if match := re.match(r"/containerLogs/[^/]+/([^/]+)/", request.path):
            lines = int(request.query.get("tailLines", STEPS))
            second = datetime.now(UTC).replace(microsecond=0)
            log = _log(STEPS if done(match[1]) else STEPS - 100, now=second, lines=lines)
            return Answer(200, log, {"Content-Type": "text/plain"})
        if match := re.search(r"/localqueues/([^/]+)/pendingworkloads$", request.path):
            items = [row for row in waiting if row["localQueueName"] == match[1]]
            return Answer(200, {"kind": "PendingWorkloadsSummary", "apiVersion": f"{GROUP}/v1beta2", "items": items})
        return Answer(200, _discovery(request.path))

    with served(Front(behind=answer), certificate=certificate) as front:
        port = urlsplit(front.url).port or 0
        _reach(cluster, port)
        yield


@cache  # kubelets are elsewhere: they take no time from what is measured
def _log(last: int, *, now: datetime, lines: int) -> str:
    """The last `lines` up to that step, which was done just now."""
    steps = range(last - lines // len(_LINES) + 1, last + 1)
    times = {n: now - timedelta(seconds=STEP_S * (last - n)) for n in steps}
    return "".join(line.format(minute, n, 12 - n / 100) for n, minute in times.items() for line in _LINES)


def _reach(cluster: Cluster, port: int) -> None:
    """Nodes whose kubelets are there, and the group of queue positions."""
    endpoints = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    reachable_nodes = [{**node, "status": {**node["status"], **endpoints}} for node in nodes(DEFAULT)]
    cluster.rest.create_all(("/api/v1/nodes", node) for node in reachable_nodes)
    cluster.rest.create_all(queues.visibility_objects(port))
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.{GROUP}"
    cluster.wait(lambda: _available(cluster.rest("GET", path)), what="the queue positions to be served")


def _waiting(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """Return the waiting Workloads as Kueue's visibility API lists them, the oldest first."""
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads?resourceVersion=0"
    node_list = cluster.patiently(lambda: cluster.rest("GET", path))  # its cache is being filled
    without = [one for one in node_list["items"] if not _reserved(one)]
    ordered = sorted(without, key=lambda one: one["metadata"]["creationTimestamp"])
    return [
        {
            "metadata": {key: one["metadata"][key] for key in KEPT},
            "priority": one["spec"]["priority"],
            "localQueueName": one["spec"]["queueName"],
            "positionInClusterQueue": position,
            "positionInLocalQueue": position,
        }
        for position, one in enumerate(ordered)
    ]


KEPT = ("name", "namespace", "creationTimestamp", "ownerReferences")


def _reserved(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any((condition["type"], condition["status"]) == ("QuotaReserved", "True") for condition in conditions)


def _available(service: dict[str, Any]) -> bool:
    conditions = service.get("status", {}).get("conditions", ())
    return any((condition["type"], condition["status"]) == ("Available", "True") for condition in conditions)


def _discovery(path: str) -> dict[str, Any]:
    version = path.rstrip("/").rpartition("/")[2]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{version}", "resources": []}
