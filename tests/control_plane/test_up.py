"""The control plane that other tests stand on. tests/faults/test_admitted.py has all pods of a run on it, and
tests/faults/test_outages.py starts its servers again.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
import yaml

from tests.control_plane.api import Cluster
from tests.control_plane.rest import ApiError
from tests.stories import ROOT
from tests.until import until_next_second

pytestmark = pytest.mark.cluster
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{}/localqueues/{}/pendingworkloads"


def manifest(golden: str, namespace: str, *, name: str = "", queue: str = "") -> dict[str, Any]:
    """Return what `xsft submit` sends for a shipped workload: tests/test_workloads.py compares these files."""
    text = (ROOT / "tests" / "golden" / f"{golden}.manifest.yaml").read_text(encoding="utf-8")
    document = dict(yaml.safe_load(text))
    document["metadata"] |= {"namespace": namespace, **({"name": name} if name else {})}
    if queue:
        document["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    return document


def test_the_webhooks_of_jobset_and_kueue_refuse_invalid_names(real_cluster: Cluster, cluster_namespace: str) -> None:
    long = manifest("deepseek_ultrachat_mcjax", cluster_namespace, name="a" * 43)
    with pytest.raises(ApiError, match="pod names generated for this JobSet will exceed 63 characters"):
        real_cluster.api("POST", JOBSETS.format(cluster_namespace), long)
    queue = manifest("deepseek_ultrachat_mcjax", cluster_namespace, queue="Bad_Queue")
    with pytest.raises(ApiError, match=r"kueue\.x-k8s\.io/queue-name"):
        real_cluster.api("POST", JOBSETS.format(cluster_namespace), queue)
    assert real_cluster.api("GET", JOBSETS.format(cluster_namespace))["items"] == []


def test_kueue_reports_the_workloads_ahead(real_cluster: Cluster, cluster_namespace: str) -> None:
    """In a queue with room for none of two. Its order is by the second of creation, in no order within one."""
    queue, created = real_cluster.create_queue(cluster_namespace, {"4xv6e-256": 256}), 0.0
    try:
        for name in ("first", "second"):
            until_next_second(created)
            sent_manifest = manifest("deepseek_ultrachat_mcjax", cluster_namespace, name=name, queue=queue)
            real_cluster.api("POST", JOBSETS.format(cluster_namespace), sent_manifest)
            created = time.time()
            real_cluster.wait(
                partial(waiting, real_cluster, cluster_namespace, queue, name), what=f"{name} to be queued"
            )
        # The one that Kueue tries at this moment is in no list.
        expected = {"first": 0, "second": 1}
        real_cluster.wait(
            lambda: positions(real_cluster, cluster_namespace, queue) == expected, what="both to be in their order"
        )
    finally:
        real_cluster.delete_queue(cluster_namespace)


def waiting(cluster: Cluster, namespace: str, queue: str, name: str) -> bool:
    return name in positions(cluster, namespace, queue)


def positions(cluster: Cluster, namespace: str, queue: str) -> dict[str, int]:
    try:
        items = cluster.api("GET", PENDING.format(namespace, queue))["items"]
    except ApiError as problem:
        if problem.status not in {404, 503}:  # Kueue has not seen the queue, or the server not Kueue
            raise
        return {}
    return {pending["metadata"]["ownerReferences"][0]["name"]: pending["positionInLocalQueue"] for pending in items}
