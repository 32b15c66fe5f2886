"""Waits for a change of one JobSet with a watch of the Kubernetes API, so that a change is seen at once.

A watch only triggers a new read; the state of a run always comes from a read. So nothing is lost if a watch breaks,
gets 410 Gone, or may not be opened: the caller then reads at its usual interval. source:
kubernetes.io/docs/reference/using-api/api-concepts, "Efficient detection of changes" and "410 Gone responses".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from xsft.base.errors import XsftError
from xsft.base.lenient import mapping, text
from xsft.cluster import resources as kinds
from xsft.cluster.cluster import Cluster
from xsft.cluster.errors import ApiRequest
from xsft.cluster.jobset_fields import jobset_of, server_of
from xsft.cluster.observation import RunObject
from xsft.cluster.stream import Stream
from xsft.machine import clock

SOONEST_S = 2.0
"""Minimum interval between reads: several changes usually arrive together."""


def pause_until_changed(
    connect: Callable[[], Cluster], jobset: RunObject, *, seconds: float, soonest_s: float = SOONEST_S
) -> None:
    """Return when the JobSet has changed, but not before `soonest_s`, or after so many seconds. Never raises XsftError.
    Costs one request, which the API server answers from memory.
    """
    began = clock.monotonic()
    changed = seconds > soonest_s and _has_changed(connect, jobset, until=began + seconds)
    clock.pause(began + (min(seconds, soonest_s) if changed else seconds) - clock.monotonic())


def _has_changed(connect: Callable[[], Cluster], jobset: RunObject, *, until: float) -> bool:
    """Return whether the JobSet has changed; False also if the watch ends or fails."""
    try:
        stream = _open_watch(connect(), jobset, seconds=until - clock.monotonic())
    except XsftError:
        return False
    if stream is None:
        return False
    try:
        for line in stream.lines():
            found = _tells(line, jobset)
            if found is not None or clock.monotonic() >= until:
                return bool(found)
    except OSError:
        return False
    finally:
        stream.close()
    return False


def _open_watch(cluster: Cluster, jobset: RunObject, *, seconds: float) -> Stream | None:
    """Open a watch from the state in the server's memory (resource version 0), which is sent first."""
    ask = ApiRequest(
        verb="watch", resource=kinds.DEPLOYMENTS if jobset.serves else kinds.JOBSETS, namespace=jobset.namespace
    )
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={jobset.name}",
        "resourceVersion": "0",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(max(1, math.ceil(seconds))),
    }
    answer = cluster.reads.api.opened(ask, query=query, read_timeout_s=max(1.0, seconds))
    return answer if isinstance(answer, Stream) else None


def _tells(line: bytes, jobset: RunObject) -> bool | None:
    """Return whether the JobSet differs now; None: keep listening. False if the watch is over, 410 Gone included."""
    event = _object(line)
    match text(event.get("type")):
        case "ADDED" | "MODIFIED":
            now = (server_of if jobset.serves else jobset_of)(mapping(event, "object"))
            return True if _gist(now) != _gist(jobset) else None
        case "DELETED":
            return True
        case "BOOKMARK":
            return None
        case _:
            return False


def _gist(jobset: RunObject) -> tuple[RunObject, bool]:
    """Return the JobSet without its counts, which change with every slice, and whether all of them are up."""
    up = bool(jobset.jobs) and all(job.ready + job.succeeded >= job.replicas for job in jobset.jobs)
    return replace(jobset, jobs=()), up


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
