"""The control plane that other tests stand on: what xsft creates runs on it, and what it leaves behind is nothing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster.api import Cluster
from tests.stories import ROOT

pytestmark = pytest.mark.cluster
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"


def manifest(golden: str, namespace: str) -> dict[str, Any]:
    """What `xsft submit` sends for one of the shown workloads: tests/test_workloads.py compares these files."""
    text = (ROOT / "tests" / "golden" / f"{golden}.manifest.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    document["metadata"]["namespace"] = namespace
    return dict(document)


@pytest.mark.parametrize(("golden", "pods"), [("deepseek_ultrachat_mcjax", 128), ("deepseek_ultrachat", 129)])
def test_what_xsft_creates_runs(real_cluster: Cluster, cluster_namespace: str, golden: str, pods: int) -> None:
    sent = manifest(golden, cluster_namespace)
    real_cluster.api("POST", JOBSETS.format(cluster_namespace), sent)
    running = real_cluster.wait_pods(cluster_namespace, "", count=pods)
    nodes = {pod["spec"]["nodeName"] for pod in running}
    assert len(nodes) == pods
    (workload,) = real_cluster.api("GET", WORKLOADS.format(cluster_namespace))["items"]
    assert "Admitted" in {one["type"] for one in workload["status"]["conditions"] if one["status"] == "True"}
