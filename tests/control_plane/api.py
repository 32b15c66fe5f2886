"""A running cluster: ask its API, move its pods, stop and start its parts.

cluster.api("GET", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets")
cluster.end(namespace, "xsft.dev/run=a", code=137, oom=True)
cluster.stop("kube-apiserver"); cluster.start("kube-apiserver")
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import urllib3

from tests.control_plane import podlogs, queues, record, stored
from tests.control_plane.components import ORDER, Layout, commands
from tests.control_plane.nodes import LARGE
from tests.control_plane.processes import Process, Spawner
from tests.control_plane.rest import MERGE, ApiError, Rest, each

Json = dict[str, Any]
T = TypeVar("T")
PATIENCE_S = 300.0
"""On a busy machine 128 pods have taken longer than 90 s to run."""
UNANSWERED = (ApiError, urllib3.exceptions.HTTPError)


class StartFailed(Exception):
    """A component ended, or was not ready in time; with the end of its log."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """`name` is also its kubeconfig context. Times are in seconds."""

    name: str
    layout: Layout
    spawner: Spawner
    processes: dict[str, Process]
    """By component; those that were started and not stopped."""

    @property
    def folder(self) -> Path:
        return self.layout.folder

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def context(self) -> str:
        return self.name

    @property
    def server(self) -> str:
        return self.layout.server

    @property
    def token(self) -> str:
        """Return the token of the only administrator; made at the start, gone with the cluster."""
        return self.layout.token

    @property
    def ca(self) -> Path:
        return Path(self.layout.certificate("ca.crt"))

    @cached_property
    def rest(self) -> Rest:
        return Rest(server=self.server, ca=self.ca, token=self.token)

    def api(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        """JSON of the answer; None where it is empty. Raises ApiError (with `status`) when the server says no."""
        return self.rest(method, path, body, content=content)

    def kubectl(self, *argv: str, stdin: str = "", check: bool = True) -> str:
        """Standard output of this cluster's own kubectl. Raises CalledProcessError when it fails and `check` is on."""
        return subprocess.run(
            (self.layout.tools.program("kubectl"), "--context", self.context, *argv),
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=stdin,
            capture_output=True,
            text=True,
            check=check,
        ).stdout

    # ---- pods

    def pods(self, namespace: str, selector: str = "") -> list[Json]:
        return list(self.api("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(selector)}")["items"])

    def wait_pods(
        self, namespace: str, selector: str, *, count: int, phase: str = "Running", until_s: float = PATIENCE_S
    ) -> list[Json]:
        """The selected pods, once exactly `count` of them are in that phase. Raises TimeoutError."""
        query = urlencode(
            {"labelSelector": selector, "fieldSelector": f"status.phase={phase}", "includeObject": "None"}
        )
        path = f"/api/v1/namespaces/{namespace}/pods?{query}"
        self.wait(
            lambda: len(self.rest.rows(path)) == count, what=f"{count} pods {selector} to be {phase}", until_s=until_s
        )
        return [pod for pod in self.pods(namespace, selector) if pod["status"].get("phase") == phase]

    def annotate_pod(self, namespace: str, pod: str, notes: Mapping[str, str | None]) -> None:
        """Set annotations, or remove those that are None; tests/control_plane/stages.yaml says what `fake/…` do."""
        body = {"metadata": {"annotations": dict(notes)}}
        self.api("PATCH", f"/api/v1/namespaces/{namespace}/pods/{pod}", body, content=MERGE)

    def annotate_pods(self, namespace: str, selector: str, notes: Mapping[str, str | None]) -> None:
        names = [pod["metadata"]["name"] for pod in self.pods(namespace, selector)]
        each(lambda name: self.annotate_pod(namespace, name, notes), names)

    def end(self, namespace: str, selector: str, *, code: int = 0, oom: bool = False, message: str = "") -> None:
        """The selected pods end: with exit `code`, by the OOM killer if so, with a termination `message`."""
        notes = {"fake/end": str(code), "fake/msg": message, **({"fake/oom": "1"} if oom else {})}
        self.annotate_pods(namespace, selector, notes)

    def write_logs(self, namespace: str, selector: str, lines: Sequence[str], **settings: Any) -> None:
        """Append `lines` to the log of each selected pod; tests/control_plane/podlogs.py explains `settings`."""
        for pod in self.pods(namespace, selector):
            podlogs.write(self.rest, self.folder / "logs", pod, lines, **settings)

    # ---- namespaces and queues

    def create_namespace(self, name: str) -> None:
        """With a LocalQueue that points to the shared ClusterQueue."""
        self.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.api("POST", *queues.local_queue(name))

    def empty_namespace(self, name: str) -> None:
        """Returns when its runs, pods and workloads are gone, so that their nodes and their quota are free."""
        groups = {
            "apps/v1": "deployments",
            "jobset.x-k8s.io/v1alpha2": "jobsets",
            "batch/v1": "jobs",
            "kueue.x-k8s.io/v1beta2": "workloads",
        }
        made = [f"/apis/{group}/namespaces/{name}/{kind}" for group, kind in groups.items()]
        for path in made:  # each by name: a garbage collector that is new knows no CRDs
            self.api("DELETE", f"{path}?propagationPolicy=Background&gracePeriodSeconds=0")

        def empty() -> bool:
            stored.forget(f"/registry/pods/{name}/", port=self.layout.ports["etcd"])  # and those that are still made
            paths = (*made, f"/api/v1/namespaces/{name}/pods")
            return not any(self.api("GET", f"{path}?limit=1")["items"] for path in paths)

        self.wait(empty, what=f"namespace {name} to empty")

    def delete_namespace(self, name: str) -> None:
        """Returns when it is empty. Its own end takes the server a hundred requests more, which no test waits for."""
        self.empty_namespace(name)
        self.api("DELETE", f"/api/v1/namespaces/{name}")

    def wait_used(self, chips: int, *, flavor: str = LARGE.flavor) -> None:
        """Returns when so many chips of the flavor, by default the large slices', are used in the queue that all share;
        Kueue writes that a second after runs come and go.
        """
        path = f"{queues.KUEUE}/clusterqueues/{queues.CLUSTER_QUEUE}"
        self.wait(lambda: queues.used(self.api("GET", path), flavor) == chips, what=f"{chips} chips to be used")

    def create_queue(self, namespace: str, chips: Mapping[str, int]) -> str:
        """A ClusterQueue of the namespace's own, with so many chips by flavour, and the LocalQueue `own` that points
        to it; returns the LocalQueue's name. `delete_queue` when it is no longer used.
        """
        self.api("POST", f"{queues.KUEUE}/clusterqueues", queues.cluster_queue(namespace, dict(chips)))
        self.api("POST", *queues.local_queue(namespace, name="own", cluster_queue=namespace))
        return "own"

    def delete_queue(self, namespace: str) -> None:
        self.api("DELETE", f"{queues.KUEUE}/clusterqueues/{namespace}")

    # ---- components

    def start(self, component: str) -> None:
        """Start it, on the same port, and wait until it answers. Raises StartFailed."""
        self.spawn(component)
        port = {"kube-apiserver": "api"}.get(component, component)
        if component == "kube-apiserver":
            self.patiently(lambda: self.rest.text("GET", "/readyz"))
        elif port in self.layout.ports:
            self.wait(lambda: _listens(self.layout.ports[port]), what=f"{component} to listen")

    def spawn(self, component: str) -> None:
        """Start it and do not wait."""
        self.processes[component] = self.spawner.spawn(commands(self.layout)[component])
        record.save(self)

    def stop(self, component: str, *, with_signal: int = signal.SIGKILL) -> None:
        """End it and wait until it is gone; by default as if its machine went. Asked politely (SIGTERM), the API server
        waits for those who watch, for up to 10 s.
        """
        self.spawner.end(self.processes.pop(component), with_signal=with_signal)
        record.save(self)

    def down(self) -> None:
        """Everything ends, at once; the folder goes."""
        for component in reversed(ORDER):
            if process := self.processes.pop(component, None):
                self.spawner.end(process, with_signal=signal.SIGKILL)
        if "rest" in vars(self):
            self.rest.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def alive(self) -> dict[str, bool]:
        """Every component that should run: does it?"""
        return {name: process.alive for name, process in self.processes.items()}

    def log_tail(self, component: str, *, lines: int = 20) -> str:
        log = self.spawner.log(component)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # ---- waiting

    def wait(self, check: Callable[[], T], *, what: str, until_s: float = PATIENCE_S) -> T:
        """The first true answer of `check`. Raises TimeoutError, StartFailed when a component ended meanwhile."""
        until, pauses = time.monotonic() + until_s, _pauses()
        while not (outcome := check()):
            self._look_after()
            if time.monotonic() > until:
                raise TimeoutError(f"waited {until_s:g} s for {what}")
            time.sleep(next(pauses))
        return outcome

    def patiently(self, do: Callable[[], T], *, until_s: float = PATIENCE_S) -> T:
        """`do`, again and again while the server does not answer or says no. Raises StartFailed after `until_s`."""
        until, pauses = time.monotonic() + until_s, _pauses()
        while True:
            try:
                return do()
            except UNANSWERED as problem:
                self._look_after()
                if time.monotonic() > until:
                    raise StartFailed(f"the API server still says: {problem}") from problem
            time.sleep(next(pauses))

    def _look_after(self) -> None:
        for component, alive in self.alive().items():
            if not alive:
                raise StartFailed(f"{component} has ended; the end of its log:\n{self.log_tail(component)}")


def _pauses() -> Iterator[float]:
    """Short ones first: most of what is waited for is there at once, and each look costs the server."""
    return itertools.chain((0.02, 0.03, 0.05, 0.1), itertools.repeat(0.2))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
