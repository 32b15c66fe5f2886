"""`xsft place show` of a real control plane: what it holds, who waits, what is cordoned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checks.test_demand import demand
from tests.clusterruns import CHIPS, FLAVOR, Staged
from tests.control_plane.api import Cluster
from tests.control_plane.rest import MERGE
from tests.fakes.clusters import ClusterApi
from tests.inprocess import xsft
from xsft.checks.controllers import check_controllers
from xsft.launch.admission import inspect

pytestmark = pytest.mark.cluster
CORDONED = "/api/v1/nodes/gke-xsft-v6e-8-np-1-000"


def test_place_show_counts_slices_by_use(
    real_cluster: Cluster, cluster_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(real_cluster.kubeconfig))
    staged = Staged(real=real_cluster, namespace=cluster_namespace)
    name = staged.submit("gemma")["metadata"]["name"]
    staged.runs("gemma")
    real_cluster.wait_used(CHIPS, flavor=FLAVOR)
    real_cluster.api("PATCH", CORDONED, {"spec": {"unschedulable": True}}, content=MERGE)
    try:
        done = xsft("place", "show", "--context", real_cluster.context, "--json")
        shown = xsft("place", "show", "--context", real_cluster.context).stdout
    finally:
        real_cluster.api("PATCH", CORDONED, {"spec": {"unschedulable": None}}, content=MERGE)
    document = json.loads(done.stdout)
    slices = {use_of_type["tpu_type"]: use_of_type for use_of_type in document["slices"]}
    used = slices["v6e-16"]
    assert (used["total"], used["held"], used["free"]) == (2, 2, 0)
    assert used["users"] == [{"jobset": name, "namespace": cluster_namespace, "slices": 2, "state": "holds"}]
    assert slices["v6e-256"]["total"] == 4
    assert slices["v6e-8"]["unavailable"] == ["xsft-v6e-8-np-1"]
    assert slices["v6e-8"]["free"] == 1
    assert document["versions"]["Kubernetes"].startswith("v1.")
    assert document["unread"] == []
    assert f"v6e-16  {name} (namespace {cluster_namespace}) holds 2 slices" in shown
    assert f"{FLAVOR} {CHIPS} of {CHIPS} chips used" in shown


def test_place_add_reads_what_the_cluster_has_and_refuses_a_queue_that_it_lacks(
    real_cluster: Cluster, cluster_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(real_cluster.kubeconfig))
    monkeypatch.chdir(tmp_path)
    add = ("place", "add", "lab", "--context", real_cluster.context, "--namespace", cluster_namespace)
    refused = xsft(*add, "--queue", "nosuch")
    assert (refused.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "has no LocalQueue nosuch. Known: multislice-queue" in refused.stderr
    done = xsft(*add, "--json")
    cluster = json.loads(done.stdout)["found"]["cluster"]
    assert (cluster["queues"], cluster["unread"]) == (["multislice-queue"], [])
    assert cluster["slices"]["v6e-256"] == 4
    assert {"low", "medium", "high"} <= set(cluster["priority_classes"])
    written = (tmp_path / "places.yaml").read_text()
    assert written == f"lab:\n  context: {real_cluster.context}\n  namespace: {cluster_namespace}\n"


def test_doctor_lists_what_each_mode_lacks_in_a_place_and_its_fix_works(
    real_cluster: Cluster, cluster_namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(real_cluster.kubeconfig))
    monkeypatch.chdir(tmp_path)
    place = {"context": real_cluster.context, "namespace": cluster_namespace, "queue": "nosuch"}
    (tmp_path / "places.yaml").write_text(json.dumps({"lab": place}))
    done = xsft("doctor", "--place", "lab", "--json")
    document = json.loads(done.stdout)
    needs = {need["id"]: need for need in document["needs"]}
    assert done.returncode == 3, document
    assert document["modes"]["mcjax"] == ["queue", "output"]
    assert document["modes"]["pathways"][:2] == ["queue", "output"]
    assert needs["queue"]["fix"] == "Set queue: multislice-queue in places.yaml."
    assert "v6e-256" in needs["tpu-slices"]["detail"]
    assert {needs[name]["ok"] for name in ("jobset", "kueue", "namespace", "priority-class")} == {True}
    (tmp_path / "places.yaml").write_text(
        json.dumps({"lab": place | {"queue": "multislice-queue", "output": "gs://b-1/r"}})
    )
    ready = xsft("doctor", "--place", "lab")
    assert "mcjax: ready" in ready.stdout
    assert "pathways: needs " in ready.stdout
    assert "pathways-image-missing" in ready.stdout


def test_place_show_reads_versions_from_the_images_of_the_controllers(
    real_cluster: Cluster, cluster_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GKE runs the controllers as Deployments; this cluster runs them as processes, so the objects are made here."""
    monkeypatch.setenv("KUBECONFIG", str(real_cluster.kubeconfig))
    labels = {"app": "manager"}
    containers = [{"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.16.1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    manifest = {
        "metadata": {"name": "kueue-controller-manager"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/kueue-system/deployments"
    real_cluster.api("POST", path, manifest)
    try:
        done = xsft("place", "show", "--context", real_cluster.context, "--json")
        facts = inspect(
            ClusterApi(kubeconfig=real_cluster.kubeconfig, context=real_cluster.context).connect(), demand()
        )
    finally:
        real_cluster.api("DELETE", f"{path}/kueue-controller-manager")
    (problem,) = check_controllers(facts.controllers, context=real_cluster.context)
    assert "kueue-controller-manager in the namespace kueue-system has 0 of 0 pods ready" in problem.message
    versions = json.loads(done.stdout)["versions"]
    assert (versions["JobSet"], versions["Kueue"]) == (None, "v0.16.1")
