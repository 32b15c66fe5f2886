"""Fixtures of the real control plane. Such tests are marked `cluster`; one cluster serves the whole session.

pytestmark = pytest.mark.cluster

def test_it(real_cluster: Cluster, cluster_namespace: str) -> None:
    real_cluster.api("POST", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{cluster_namespace}/jobsets", manifest)
    real_cluster.wait_pods(cluster_namespace, "xsft.dev/run=a", count=128)
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.control_plane import build, tools
from tests.control_plane.nodes import Slices, nodes, ready
from tests.control_plane.tools import Tools

if TYPE_CHECKING:
    from tests.control_plane.api import Cluster


@pytest.fixture(scope="session")
def cluster_tools() -> Tools:
    """The programs. Built by `make cluster-tools`, never by a test."""
    return built_tools()


def built_tools() -> Tools:
    """The programs, or a skip with the reason, which tests/run.py counts as not run."""
    built = tools.find()
    if built is None:
        why = build.why_not() or "they are not built: `make cluster-tools`, about 10 minutes on two idle cores, once"
        pytest.skip(f"NOT RUN: needs a real control plane's programs: {why}")
    return built


@pytest.fixture(scope="session")
def real_cluster(cluster_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """etcd, API server, controller manager, scheduler, JobSet, Kueue and kwok; 4 slices of v6e-256 and some small ones.

    It takes 20 s to start, ends with the session, and dies with this process however that ends.
    """
    from tests.control_plane.start import up  # heavy, and most sessions need it not

    folder = tmp_path_factory.mktemp("cluster") / "real"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOGC", "400")  # a seventh less CPU of the API server; all have 2 GB then, not 1
        cluster = up(folder, tools=cluster_tools, name="xsft-tests", progress=say, bound=True)
        yield cluster
    cluster.down()


@pytest.fixture
def cluster_namespace(real_cluster: Cluster) -> Iterator[str]:
    """A namespace of this test's own; its LocalQueue `multislice-queue` draws on the quota that all share: 1,024 chips
    of v6e-256 and a few of the small types. `real_cluster.create_queue` makes a queue with a quota of its own.

    When the test is over, every run in it is gone before the next one starts: quota and nodes are free again. The
    namespace stays: to delete one costs as much as a test.
    """
    name = f"test-{uuid.uuid4().hex[:8]}"
    real_cluster.create_namespace(name)
    yield name
    real_cluster.empty_namespace(name)


@pytest.fixture(scope="module")
def chip(real_cluster: Cluster) -> Iterator[None]:
    """A node with one v6e chip."""
    (node,) = (
        node_object
        for node_object in nodes((Slices(tpu_type="v6e-1", count=1),))
        if "v6e-1-" in node_object["metadata"]["name"]
    )
    real_cluster.api("POST", "/api/v1/nodes", ready(node, port=real_cluster.layout.ports["kwok"]))
    yield
    real_cluster.api("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


def say(line: str) -> None:
    print(f"cluster: {line}", file=sys.stderr, flush=True)
