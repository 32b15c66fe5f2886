"""Servers on a real control plane: created once, their pod followed, and deleted whole by the Deployment's UID."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contract.commandline import machine
from tests.control_plane.api import Cluster
from tests.control_plane.rest import ApiError
from tests.fakes.clusters import ClusterApi
from tests.replacing import replace
from tests.servers import IMAGE, NAME, STORY, WEIGHTS, recorded, server
from xsft.base.errors import Refused, SpecError, XsftError
from xsft.cluster.cluster import Cluster as Connected
from xsft.launcher.server_manifest import ServingPlan
from xsft.stages.create_server import BegunServer, begin, find_server

pytestmark = pytest.mark.cluster
Json = dict[str, Any]
Starts = Callable[[ServingPlan], BegunServer]
PODS = f"xsft.dev/run={NAME}"


@pytest.fixture
def connected(real_cluster: Cluster) -> Connected:
    api = ClusterApi(kubeconfig=real_cluster.kubeconfig, context=real_cluster.context)
    return api.connect()


@pytest.fixture
def plan(cluster_namespace: str) -> ServingPlan:
    """A server in a namespace of its own."""
    return server(namespace=cluster_namespace)


def path_of(body: Json, *, name: str = "") -> str:
    kinds = {"Deployment": "deployments", "Service": "services", "PodDisruptionBudget": "poddisruptionbudgets"}
    version, root = body["apiVersion"], "api" if body["apiVersion"] == "v1" else "apis"
    return f"/{root}/{version}/namespaces/{body['metadata']['namespace']}/{kinds[body['kind']]}{name and f'/{name}'}"


def held(cluster: Cluster, plan: ServingPlan) -> list[Json | None]:
    """The Deployment, the Service and the budget, each None if it is not there."""

    def one(body: Json) -> Json | None:
        try:
            return dict(cluster.api("GET", path_of(body, name=plan.run_name)))
        except ApiError as failed:
            if failed.status != 404:
                raise
            return None

    return [one(body) for body in (plan.manifest, *plan.dependents)]


@pytest.fixture
def started(connected: Connected, tmp_path: Path) -> Starts:
    def start(plan: ServingPlan) -> BegunServer:
        return begin(connected, plan, record=recorded(tmp_path), progress=lambda _line: None)

    return start


def test_a_server_runs_on_its_node_outside_kueue_and_one_delete_by_uid_takes_all(
    real_cluster: Cluster, connected: Connected, plan: ServingPlan, started: Starts, chip: None
) -> None:
    assert find_server(connected, plan).state == "missing"
    first = started(plan)
    deployment, service, budget = held(real_cluster, plan)
    assert deployment is not None
    assert (first.action, first.uid) == ("created", deployment["metadata"]["uid"])
    for dependent in (service, budget):
        assert dependent is not None
        assert [owner["uid"] for owner in dependent["metadata"]["ownerReferences"]] == [first.uid]
    (pod,) = real_cluster.wait_pods(plan.namespace, PODS, count=1)
    assert "v6e-1" in pod["spec"]["nodeName"]
    kueue = real_cluster.api("GET", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{plan.namespace}/workloads")
    assert kueue["items"] == []
    real_cluster.wait(lambda: find_server(connected, plan).state == "done", what="the server to be ready")
    assert find_server(connected, plan).result == f"http://{NAME}.{plan.namespace}.svc.cluster.local:8000/v1"
    real_cluster.wait(lambda: healthy_pods(real_cluster, plan) == 1, what="the budget to count the pod")
    assert service is not None
    selector = ",".join(f"{label}={value}" for label, value in service["spec"]["selector"].items())
    assert [owner["metadata"]["name"] for owner in real_cluster.pods(plan.namespace, selector)] == [
        pod["metadata"]["name"]
    ]
    finalizers(real_cluster, plan, ["xsft.dev/test"])  # as a cluster that is slow to delete it
    assert connected.servers.delete(name=NAME, namespace=plan.namespace, uid=first.uid) == "deleted"
    with pytest.raises(Refused) as ending:
        started(plan)
    assert ending.value.problem_id == "server-ending"
    finalizers(real_cluster, plan, [])
    real_cluster.wait(lambda: held(real_cluster, plan) == [None, None, None], what="all three to go")
    second = started(plan)
    assert (second.action, second.uid != first.uid) == ("attempt", True)


def finalizers(cluster: Cluster, plan: ServingPlan, names: list[str]) -> None:
    patch = {"metadata": {"finalizers": names}}
    path = path_of(plan.manifest, name=plan.run_name)
    cluster.api("PATCH", path, patch, content="application/merge-patch+json")


def healthy_pods(cluster: Cluster, plan: ServingPlan) -> int:
    _, _, budget = held(cluster, plan)
    return int((budget or {}).get("status", {}).get("currentHealthy", 0))


def test_the_reason_why_a_server_is_not_ready_is_reported(
    real_cluster: Cluster, connected: Connected, plan: ServingPlan, started: Starts, chip: None
) -> None:
    without_node = server(namespace=plan.namespace, type="l4-1")
    uid = started(without_node).uid
    real_cluster.wait(
        lambda: "waits for a node" in find_server(connected, without_node).why, what="the scheduler's answer"
    )
    assert find_server(connected, without_node).state == "running"
    options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
    real_cluster.api("DELETE", path_of(plan.manifest, name=plan.run_name), options)
    real_cluster.wait(
        lambda: held(real_cluster, plan) == [None, None, None] and not real_cluster.pods(plan.namespace, PODS),
        what="the first server to go",
    )
    started(plan)
    (pod,) = real_cluster.wait_pods(plan.namespace, PODS, count=1)
    real_cluster.write_logs(plan.namespace, PODS, ["ValueError: no room for it"], container="vllm", previous=True)
    notes = {"fake/restarts": "3", "fake/restart-code": "1"}
    real_cluster.annotate_pod(plan.namespace, pod["metadata"]["name"], notes)
    broken = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    pod_path = f"/api/v1/namespaces/{plan.namespace}/pods/{pod['metadata']['name']}/status"
    real_cluster.api("PATCH", pod_path, broken, content="application/strategic-merge-patch+json")
    real_cluster.wait(lambda: find_server(connected, plan).state == "failed", what="the crashes to be seen")
    why = find_server(connected, plan).why
    assert "its container vllm ended 3 times, last with exit code 1" in why
    assert why.endswith("ValueError: no room for it")


def test_a_refused_object_leaves_nothing_of_its_server(
    real_cluster: Cluster, connected: Connected, plan: ServingPlan, started: Starts
) -> None:
    pod = plan.manifest["spec"]["template"]["spec"]
    unknown = {"template": {"metadata": plan.manifest["spec"]["template"]["metadata"], "spec": {**pod, "extra": 1}}}
    broken = {**plan.manifest, "spec": {**plan.manifest["spec"], **unknown}}
    with pytest.raises(SpecError) as refused:
        started(replace(plan, manifest=broken))
    assert 'unknown field "spec.template.spec.extra"' in str(refused.value)
    assert held(real_cluster, plan) == [None, None, None]


def test_a_vpc_server_without_load_balancers_is_refused_before_any_create(
    real_cluster: Cluster, connected: Connected, plan: ServingPlan, started: Starts
) -> None:
    exposed = server(namespace=plan.namespace, expose="vpc")
    for body in exposed.dependents:
        connected.servers.dry_run(body)
    quotas = f"/api/v1/namespaces/{plan.namespace}/resourcequotas"
    none = {"metadata": {"name": "none"}, "spec": {"hard": {"services.loadbalancers": "0"}}}
    real_cluster.api("POST", quotas, {"apiVersion": "v1", "kind": "ResourceQuota", **none})
    real_cluster.wait(lambda: refused(connected, exposed.dependents), what="the quota to hold")
    with pytest.raises(XsftError) as caught:
        started(exposed)
    assert "services.loadbalancers" in caught.value.message
    assert held(real_cluster, plan) == [None, None, None]


def refused(connected: Connected, bodies: Sequence[Json]) -> bool:
    """The server has seen the quota a moment after its controller has counted."""
    try:
        for body in bodies:
            connected.servers.dry_run(body)
    except XsftError as problem:
        return "services.loadbalancers" in problem.message
    return False


def test_serve_waits_until_health_answers_and_adopts_the_server_again(
    real_cluster: Cluster, cluster_namespace: str, chip: None, tmp_path: Path
) -> None:
    api = ClusterApi(kubeconfig=real_cluster.kubeconfig, context=real_cluster.context, namespace=cluster_namespace)
    with machine(tmp_path, environments=tmp_path, api=api) as here:
        file = here.workload(STORY, stages={"serve": {"image": IMAGE}})
        done = [here.xsft("serve", file, "--weights", WEIGHTS, "--json", "--yes", "--poll", "1s") for _ in range(2)]
    assert [document.returncode for document in done] == [0, 0], done[0].stderr
    documents = [json.loads(document.stdout) for document in done]
    assert [document["action"] for document in documents] == ["created", "adopted"]
    assert documents[0]["uid"] == documents[1]["uid"]
    assert "/health answers" in done[0].stderr
