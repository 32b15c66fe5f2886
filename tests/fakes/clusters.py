"""A cluster for tests: the stand-in, furnished as xpk@1.16.0 furnishes one, or a real one named in the environment.

Real: XSFT_TEST_KUBECONFIG, XSFT_TEST_CONTEXT and XSFT_TEST_NAMESPACE; it must hold the same queue objects. Tests that
make the server fail, or look at what it was asked, need the stand-in and are skipped then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.kubeapi import CONTEXT, KubeApi, serving
from tests.fakes.kubeobjects import Objects
from xsft.effects.cluster import Cluster, connect_context
from xsft.effects.cluster_api import Patience
from xsft.effects.cluster_config import Here

PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}
V6E_256 = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
    "cloud.google.com/gke-tpu-topology": "16x16",
}


@dataclass
class ClusterApi:
    """How a test reaches its cluster."""

    kubeconfig: Path
    context: str
    namespace: str
    waits: list[float] = field(default_factory=list)
    """Seconds that were waited, if waiting took time."""
    standin: KubeApi | None = None

    @property
    def server(self) -> KubeApi:
        """The stand-in; skips the test where the cluster is real."""
        if self.standin is None:
            pytest.skip("NOT RUN: needs the stand-in of the Kubernetes API, and XSFT_TEST_KUBECONFIG names a real one")
        return self.standin

    @property
    def patience(self) -> Patience:
        return Patience(sleep=self.waits.append, connect_timeout_s=2, read_timeout_s=0.5 if self.standin else 30)

    @property
    def here(self) -> Here:
        return Here(env={**os.environ, "KUBECONFIG": str(self.kubeconfig)}, home=self.kubeconfig.parent)

    def connect(self) -> Cluster:
        return connect_context(self.context, here=self.here, patience=self.patience)


def furnish(objects: Objects, *, chips: int = 512) -> Objects:
    """What xpk makes for v6e-256 with Pathways (study: infra §2.5)."""
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
    return objects


def cluster_queue(chips: int) -> dict[str, object]:
    tpu = {"name": "2xv6e-256", "resources": [{"name": "google.com/tpu", "nominalQuota": chips}]}
    head = [{"name": "cpu", "nominalQuota": "480"}, {"name": "memory", "nominalQuota": "2000G"}]
    return {
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "LowerPriority"},
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["google.com/tpu"], "flavors": [tpu]},
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "cpu-user", "resources": head}]},
        ],
    }


@contextmanager
def standing_in(folder: Path) -> Iterator[ClusterApi]:
    """The stand-in, its kubeconfig in `folder`."""
    with serving(KubeApi(objects=furnish(Objects()))) as api:
        config = api.kubeconfig(folder / "kubeconfig.yaml")
        yield ClusterApi(kubeconfig=config, context=CONTEXT, namespace="default", standin=api)


@pytest.fixture
def cluster_api(tmp_path: Path) -> Iterator[ClusterApi]:
    """The cluster of this test; nothing of it is shared with others where it is the stand-in."""
    real = os.environ.get("XSFT_TEST_KUBECONFIG")
    if real:
        names = (os.environ["XSFT_TEST_CONTEXT"], os.environ.get("XSFT_TEST_NAMESPACE", "default"))
        yield ClusterApi(kubeconfig=Path(real), context=names[0], namespace=names[1])
        return
    with standing_in(tmp_path) as api:
        yield api
