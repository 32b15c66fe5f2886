"""A cluster for tests, furnished as xpk@1.16.0 furnishes one: the stand-in, and a real control plane.

A test that takes `cluster_api` runs twice: against the stand-in, and with the marker `cluster` against the real one,
through a proxy that fails on demand as the stand-in does. A test of what no real server can be brought to bears
`standin_only` with one of the REASONS below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from tests.control_plane.queues import PRIORITIES
from tests.fakes.kubeapi import CONTEXT, KubeApi, serving, write_kubeconfig
from tests.fakes.kubeobjects import Objects
from tests.fakes.standin import StandinWorld, cluster_queue
from tests.faults.server import Front
from tests.faults.world import World
from xsft.cluster.access import AccessSources
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.sources import RunSource
from xsft.machine.parallel import start
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.read_runs import SourceCall

T = TypeVar("T")

REASONS = {
    "no-request": "it ends before the cluster is asked anything",
    "not-installed": "a real server without JobSet or Kueue would be another server; all tests share one",
    "other-version": "the pinned Kueue serves both of its versions",
    "before-server": "the real server is asked nothing; each request of a submission to it meets one such fault",
    "xpk": "what xpk's own process does, whatever server it asks; each takes its ten seconds of sleep",
    "silence": "it is about a server that says nothing, or says it too slowly; no real one does",
    "tls": "it is about the client's own TLS and login; no server is asked anything that a real one answers otherwise",
    "prompt": "it is about a terminal; what a submission creates, other tests compare on the real server",
    "held": "tests/control_plane/test_admission.py holds a slice by a real JobSet without a queue",
    "identity": "tests/control_plane/test_admission.py annotates a real ServiceAccount",
    "finished": "tests/runs/test_read_runs_namespace_real.py makes Kueue finish a real Workload early",
    "kueue-configured": "tests/control_plane/test_admission.py gives a real queue such a check and timeout",
    "walked": "tests/control_plane/test_whole_walk.py goes through the same stages on the real server",
}
"""Why a test runs on the stand-in only; tests/fakes/test_clusters.py counts them."""

V6E_256 = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "16x16",
}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
STANDIN, REAL = "stand-in", "real"


@dataclass
class ClusterApi:
    """The access of a test to its cluster; `cluster_api` gives all of it."""

    kubeconfig: Path
    context: str = CONTEXT
    namespace: str = "default"
    waits: list[float] = field(default_factory=list)
    """Seconds that were waited, if waiting took time."""
    read_timeout_s: float = 60.0
    """Time for every answer on a busy machine: one that is lost is a request more, and perhaps another outcome."""
    front: Front | None = None
    others: World | None = None
    kube_api: KubeApi | None = None

    @property
    def server(self) -> Front:
        """Return the front that all requests pass, and that fails on demand."""
        return _given(self.front, "a server that fails on demand")

    @property
    def world(self) -> World:
        """Return the actions of other users and controllers of the cluster."""
        return _given(self.others, "a world")

    @property
    def standin(self) -> KubeApi:
        """Return the stand-in, for tests that are `standin_only`."""
        return _given(self.kube_api, "the stand-in: mark the test standin_only, with the reason")

    @property
    def patience(self) -> Patience:
        return Patience(sleep=self.waits.append, read_timeout_s=self.read_timeout_s)

    @property
    def here(self) -> AccessSources:
        return AccessSources(env={**os.environ, "KUBECONFIG": str(self.kubeconfig)}, home=self.kubeconfig.parent)

    def expect_silence(self) -> None:
        """A request of this test gets no answer: do not wait long for it."""
        self.read_timeout_s = 0.5 if self.kube_api else 3.0

    def connect(self) -> Cluster:
        return connect(ClusterAddress(context=self.context), here=self.here, patience=self.patience)

    @property
    def token(self) -> str:
        return str(yaml.safe_load(self.kubeconfig.read_text())["users"][0]["user"]["token"])

    def expire_login(self, token: str = "expired") -> None:
        """The token in the kubeconfig is none that the server knows any more."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"]["token"] = token
        self.kubeconfig.write_text(yaml.safe_dump(config))


def source_call(connect: Callable[[], Cluster], *, name: str = "stand-in", namespace: str = "default") -> SourceCall:
    """Connect to that cluster, to read a namespace."""
    source = RunSource(name=name, where=ClusterAddress(context=name), namespace=namespace)
    return SourceCall(source=source, cluster=start(connect))


def _given(part: T | None, what: str) -> T:
    if part is None:
        raise AssertionError(f"this test needs {what}")
    return part


def furnish(objects: Objects, *, chips: int = 512) -> Objects:
    """Add what xpk makes for v6e-256 with Pathways (study: infra §2.5)."""
    for namespace in ("default", "kueue-system"):
        objects.add("/namespaces", namespace, metadata={"labels": {"kubernetes.io/metadata.name": namespace}})
    for name, value in PRIORITIES.items():
        objects.add("scheduling.k8s.io/priorityclasses", name, value=value)
    active = {"conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "Can admit"}]}
    objects.add(
        "kueue.x-k8s.io/localqueues",
        "multislice-queue",
        namespace="default",
        spec={"clusterQueue": "cluster-queue"},
        status=active,
    )
    objects.add("kueue.x-k8s.io/clusterqueues", "cluster-queue", spec=cluster_queue(chips), status=active)
    objects.add("kueue.x-k8s.io/resourceflavors", "2xv6e-256", spec={"nodeLabels": V6E_256})
    cpu = {"nodeLabels": {"cloud.google.com/gke-nodepool": "cpu-np"}}
    objects.add("kueue.x-k8s.io/resourceflavors", "cpu-user", spec=cpu)
    labels = {"cloud.google.com/gke-nodepool": "cpu-np"}
    allocatable = {"allocatable": {"cpu": "63", "memory": "244Gi"}, **READY}
    objects.add("/nodes", "gke-cpu-np-000", metadata={"labels": labels}, status=allocatable)
    for pool in ("tpu-np-0", "tpu-np-1"):
        for host in range(64):
            slice_labels = {**V6E_256, "cloud.google.com/gke-nodepool": pool}
            objects.add("/nodes", f"gke-{pool}-{host:03d}", metadata={"labels": slice_labels}, status=READY)
    return objects


@contextmanager
def standing_in(folder: Path) -> Iterator[ClusterApi]:
    """The stand-in, its kubeconfig in `folder`."""
    with serving(KubeApi(objects=furnish(Objects()))) as api:
        config = api.kubeconfig(folder / "kubeconfig.yaml")
        world = StandinWorld(api, "default")
        yield ClusterApi(kubeconfig=config, front=api.front, others=world, kube_api=api)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of a cluster runs on both, but for those that say why not."""
    if "cluster_api" not in metafunc.fixturenames:
        return
    only = metafunc.definition.get_closest_marker("standin_only")
    if only is not None and only.args[0] not in REASONS:
        raise ValueError(f"{metafunc.definition.nodeid}: {only.args[0]} is none of {', '.join(REASONS)}")
    real = () if only else (pytest.param(REAL, marks=pytest.mark.cluster),)
    metafunc.parametrize("cluster_api", (STANDIN, *real), indirect=True)


@pytest.fixture
def cluster_api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterApi]:
    """The cluster of this test; nothing of it is shared with others, but the real one's server."""
    if request.param == STANDIN:
        with standing_in(tmp_path) as api:
            yield api
        return
    with reaching(request.getfixturevalue("real_cluster"), tmp_path) as api:
        yield api


@contextmanager
def reaching(cluster: object, folder: Path, *, gated: bool = True) -> Iterator[ClusterApi]:
    """A namespace of its own on a real control plane (tests.control_plane.api.Cluster), through the proxy.

    `folder`: one of pytest's, whose name no other test of the session has.
    """
    from tests.control_plane.api import Cluster as Real
    from tests.faults.proxy import Upstream, proxying
    from tests.faults.real import namespace_of

    assert isinstance(cluster, Real)
    upstream = Upstream(server=cluster.server, ca=cluster.ca)
    with proxying(upstream) as front, namespace_of(cluster, upstream, of=folder.name, gated=gated) as world:
        config = write_kubeconfig(folder / "kubeconfig.yaml", server=front.url, token=cluster.token)
        yield ClusterApi(kubeconfig=config, namespace=world.namespace, front=front, others=world)
