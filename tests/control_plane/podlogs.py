"""Logs that `kubectl logs` shows: files that kwok reads, in the kubelet's own format. Followers see lines come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.control_plane.rest import ApiError, Rest

Json = dict[str, Any]
KWOK = "/apis/kwok.x-k8s.io/v1alpha1"
SEEN_WITHIN_S = 120.0
"""How long kwok may take to see a new Logs object, on a busy machine."""


def write(
    api: Rest,
    folder: Path,
    pod: Json,
    lines: Sequence[str],
    *,
    container: str = "jax-tpu",
    at: datetime | None = None,
    apart_s: float = 0.0,
    previous: bool = False,
    stream: str = "stdout",
) -> None:
    """Append to the log of one container of `pod`.

    `at`: when the first line was written, now if None; each next one `apart_s` seconds and a microsecond later.
    `previous`: the log of the container before its restart in place. `stream`: stdout or stderr.
    """
    meta = pod["metadata"]
    home = folder / meta["namespace"] / meta["name"]
    if not home.is_dir():
        _declare(api, home, pod)
    file = home / (f"{container}.previous.log" if previous else f"{container}.log")
    with file.open("a", encoding="utf-8") as log:
        log.writelines(_written(lines, at or datetime.now(UTC), apart_s=apart_s, stream=stream))


def _written(lines: Sequence[str], start: datetime, *, apart_s: float, stream: str) -> Iterator[str]:
    """Yield the lines as the kubelet's runtime writes them: time, stream, F for a full line, text."""
    for number, line in enumerate(lines):
        when = start + timedelta(seconds=number * apart_s, microseconds=number)
        yield f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z {stream} F {line}\n"


def _declare(api: Rest, home: Path, pod: Json) -> None:
    """Tell kwok where the logs of each container are, and wait until it knows."""
    home.mkdir(parents=True)
    spec = pod["spec"]
    names = [one["name"] for one in (*spec.get("initContainers", ()), *spec["containers"])]
    for name in names:
        (home / f"{name}.log").touch()
        (home / f"{name}.previous.log").touch()
    logs = [
        {
            "containers": [name],
            "logsFile": str(home / f"{name}.log"),
            "previousLogsFile": str(home / f"{name}.previous.log"),
            "follow": True,
        }
        for name in names
    ]
    meta = pod["metadata"]
    api("POST", f"{KWOK}/namespaces/{meta['namespace']}/logs", logs_object("Logs", meta["name"], logs))
    _wait_until_read(api, home / f"{names[-1]}.previous.log", pod, names[-1])


def logs_object(kind: str, name: str, logs: list[Json]) -> Json:
    """`kind`: Logs, of the pod of that name, or ClusterLogs, of every pod that has none."""
    version = KWOK.removeprefix("/apis/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {"logs": logs}}


def _wait_until_read(api: Rest, file: Path, pod: Json, container: str) -> None:
    """Until then kwok shows the empty log that every pod has. Tried on the log of before a restart, which nobody
    follows: whoever follows a file that is emptied misses as much of what comes next.
    """
    file.write_text("".join(_written(["…"], datetime.now(UTC), apart_s=0, stream="stdout")), encoding="utf-8")
    until = time.monotonic() + SEEN_WITHIN_S
    while not _shown(api, pod, container):
        if time.monotonic() > until:
            raise TimeoutError(f"kwok does not show the log of {pod['metadata']['name']}: does the pod run?")
        time.sleep(0.05)
    file.write_text("", encoding="utf-8")


def _shown(api: Rest, pod: Json, container: str) -> str:
    meta = pod["metadata"]
    query = urlencode({"container": container, "previous": "true"})
    try:
        return api.text("GET", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log?{query}")
    except ApiError:
        return ""
