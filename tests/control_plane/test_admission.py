"""Problems that are found before slices are taken, on a real control plane; the named commands solve them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cluster.test_cluster import planned
from tests.control_plane.api import Cluster
from tests.control_plane.queues import KUEUE, cluster_queue, local_queue
from tests.control_plane.rest import MERGE
from tests.control_plane.test_cpu_jobs import mend
from tests.fakes.clusters import ClusterApi
from tests.launch.test_admission import KUEUE_CONFIG, plan
from xsft.base.problems import Problem
from xsft.checks.controllers import check_managed
from xsft.cluster.cluster import Cluster as Connected
from xsft.launch.admission import examine
from xsft.planning.steps import Plan

pytestmark = pytest.mark.cluster
Json = dict[str, Any]
HOST = "/api/v1/nodes/gke-xsft-v6e-256-np-3-007"
CHECKS = "/apis/kueue.x-k8s.io/v1beta2/admissionchecks"
CONFIG_MAPS = "/api/v1/namespaces/kueue-system/configmaps"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kueue-mutating-webhook-configuration"


@pytest.fixture
def connected(real_cluster: Cluster) -> Connected:
    real_cluster.wait_used(0)
    return ClusterApi(kubeconfig=real_cluster.kubeconfig, context=real_cluster.context).connect()


def asking(slices: int, *, namespace: str) -> Plan:
    """The flagship with so many slices."""
    run_plan = plan(namespace=namespace)
    manifest = planned("deepseek_ultrachat", namespace=namespace)
    manifest["spec"]["replicatedJobs"][1]["replicas"] = slices
    return replace(run_plan, manifest=manifest)


def found(connected: Connected, slices: int, *, namespace: str) -> tuple[Problem, ...]:
    problems = examine(connected, asking(slices, namespace=namespace))[1]
    return tuple(problem for problem in problems if problem.id != "pod-rights-not-checked")


@pytest.fixture
def cordoned(real_cluster: Cluster) -> Iterator[None]:
    real_cluster.api("PATCH", HOST, {"spec": {"unschedulable": True}}, content=MERGE)
    yield
    real_cluster.api("PATCH", HOST, {"spec": {"unschedulable": None}}, content=MERGE)


@pytest.mark.usefixtures("cordoned")
def test_a_cordoned_host_takes_its_slice_away_until_the_command_opens_it(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected
) -> None:
    assert found(connected, 3, namespace=cluster_namespace) == ()
    (problem,) = found(connected, 4, namespace=cluster_namespace)
    assert problem.id == "slices-unavailable"
    assert "xsft-v6e-256-np-3 (cordoned: gke-xsft-v6e-256-np-3-007)" in problem.message
    mend(real_cluster, problem.fix.partition(": ")[2])
    assert found(connected, 4, namespace=cluster_namespace) == ()


def test_a_run_of_more_slices_than_the_cluster_has_is_reported(connected: Connected, cluster_namespace: str) -> None:
    problems = {p.id: p for p in found(connected, 5, namespace=cluster_namespace)}
    assert problems.keys() == {"quota-too-small", "slices-missing"}
    assert "has 4 slices of v6e-256; the run asks for 5" in problems["slices-missing"].message


def test_a_jobset_without_a_queue_holds_its_slice(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected
) -> None:
    """One pod of it; a JobSet that Kueue starts has more, and holds quota instead."""
    worker = planned("deepseek_ultrachat", namespace=cluster_namespace)["spec"]["replicatedJobs"][1]
    job = worker["template"]["spec"]
    job |= {"completions": 1, "parallelism": 1}
    job["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-nodepool"] = "xsft-v6e-256-np-2"
    connected.create_jobset(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "manual", "namespace": cluster_namespace},
            "spec": {"replicatedJobs": [{**worker, "replicas": 1}]},
        }
    )

    def held() -> tuple[Problem, ...]:
        return found(connected, 4, namespace=cluster_namespace)

    (problem,) = real_cluster.wait(held, what="the pod to run")
    assert problem.id == "slices-unavailable"
    manual = f"held by the JobSet {cluster_namespace}/manual, which is in no queue"
    assert f"xsft-v6e-256-np-2 ({manual})" in problem.message
    assert found(connected, 3, namespace=cluster_namespace) == ()


def test_the_identity_of_the_pods_is_reported(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected
) -> None:
    """The nodes here are as GKE's without Workload Identity."""
    run_plan = asking(2, namespace=cluster_namespace)
    (identity,) = examine(connected, run_plan)[1]
    assert "with the rights of the service account of the node pool cpu-np" in identity.message
    email = "trainer@my-project.iam.gserviceaccount.com"
    annotated = {"metadata": {"annotations": {"iam.gke.io/gcp-service-account": email}}}
    path = f"/api/v1/namespaces/{cluster_namespace}/serviceaccounts/default"
    real_cluster.api("PATCH", path, annotated, content=MERGE)
    off, _ = examine(connected, run_plan)[1]
    assert off.id == "workload-identity-off"
    assert email in off.message


def account(manifest: Json) -> Json:
    for replicated in manifest["spec"]["replicatedJobs"]:
        replicated["template"]["spec"]["template"]["spec"]["serviceAccountName"] = "trainer"
    return manifest


def unlabelled(cluster: Cluster, namespace: str) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    cluster.api("PATCH", f"/api/v1/namespaces/{namespace}", label, content=MERGE)


def limited(cluster: Cluster, namespace: str, **limits: Json) -> None:
    spec = {"limits": [{"type": "Container", **limits}]}
    cluster.api("POST", f"/api/v1/namespaces/{namespace}/limitranges", {"metadata": {"name": "small"}, "spec": spec})


def rationed(cluster: Cluster, namespace: str) -> None:
    """Wait until the controller has counted the quota's use; the server enforces the quota only then."""
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    cluster.api("POST", path, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}})


RULES: dict[str, Callable[[Cluster, str], None]] = {
    "pod-security": unlabelled,
    "limit-range": lambda cluster, namespace: limited(cluster, namespace, max={"memory": "64Gi"}),
    "limit-range-default": lambda cluster, namespace: limited(cluster, namespace, default={"memory": "512Mi"}),
    "resource-quota": rationed,
}

ALSO = {"limit-range": ("limit-range-default",)}
"""A maximum is the default of a container without a limit."""


@pytest.mark.parametrize("id", RULES)
def test_a_rule_of_the_namespace_is_found_by_a_dry_run_of_the_pods(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected, id: str
) -> None:
    manifest = planned("deepseek_ultrachat", namespace=cluster_namespace)
    assert connected.dry_run_pods(manifest) == ()
    RULES[id](real_cluster, cluster_namespace)
    problems: tuple[Problem, ...] = ()

    def holds() -> bool:
        nonlocal problems
        problems = connected.dry_run_pods(manifest)
        return {p.id for p in problems} == {id, *ALSO.get(id, ())}

    real_cluster.wait(holds, what="the rule to hold")
    assert all(cluster_namespace in p.fix for p in problems)
    assert connected.dry_run_jobs(manifest) == (), "the Jobs do not show it"


def test_a_missing_service_account_is_found_and_the_command_makes_it(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected
) -> None:
    manifest = account(planned("deepseek_ultrachat_mcjax", namespace=cluster_namespace))
    (problem,) = connected.dry_run_pods(manifest)
    assert problem.id == "service-account-missing"
    mend(real_cluster, problem.fix.partition(": ")[2])
    real_cluster.wait(lambda: connected.dry_run_pods(manifest) == (), what="the account to be known")


@pytest.fixture
def left_out(real_cluster: Cluster, cluster_namespace: str) -> Iterator[None]:
    """Kueue's webhook for JobSets does not see the namespace."""
    before = real_cluster.api("GET", WEBHOOKS)["webhooks"]
    term = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [cluster_namespace]}
    narrow = [
        {**webhook, "namespaceSelector": {"matchExpressions": [term]}}
        if webhook["name"] == "mjobset.kb.io"
        else webhook
        for webhook in before
    ]
    real_cluster.api("PATCH", WEBHOOKS, {"webhooks": narrow}, content=MERGE)
    yield
    real_cluster.api("PATCH", WEBHOOKS, {"webhooks": before}, content=MERGE)


@pytest.mark.usefixtures("left_out")
def test_a_dry_run_reports_a_jobset_that_kueue_does_not_manage(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected
) -> None:
    manifest = planned(namespace=cluster_namespace)

    def problems() -> list[Problem]:
        return list(check_managed(connected.dry_run_jobset(manifest), context=connected.context))

    real_cluster.wait(problems, what="the server to call its webhooks anew")
    assert [p.id for p in problems()] == ["kueue-not-managing"]


@pytest.fixture
def configured(real_cluster: Cluster, cluster_namespace: str) -> Iterator[str]:
    """A queue with a ProvisioningRequest check, for which no controller runs here, and a timeout in Kueue's file."""
    body = cluster_queue(cluster_namespace, {"4xv6e-256": 1024})
    body["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": cluster_namespace}]}
    spec = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "spec": spec}
    real_cluster.api("POST", f"{KUEUE}/clusterqueues", body)
    real_cluster.api("POST", *local_queue(cluster_namespace, name="own", cluster_queue=cluster_namespace))
    real_cluster.api("POST", CHECKS, {**check, "metadata": {"name": cluster_namespace}})
    data = {"controller_manager_config.yaml": KUEUE_CONFIG}
    real_cluster.api("POST", CONFIG_MAPS, {"metadata": {"name": "kueue-manager-config"}, "data": data})
    yield "own"
    real_cluster.api("DELETE", f"{CONFIG_MAPS}/kueue-manager-config")
    real_cluster.delete_queue(cluster_namespace)
    real_cluster.api("DELETE", f"{CHECKS}/{cluster_namespace}")


def test_a_check_that_no_controller_serves_and_the_timeout_of_the_start_are_read(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected, configured: str
) -> None:
    run_plan = plan(namespace=cluster_namespace, queue=configured)
    run_plan.manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = configured  # type: ignore[index]

    def problems() -> dict[str, Problem]:
        facts, problems_read = examine(connected, run_plan)
        assert facts.ready_timeout_s == 60
        return {problem.id: problem for problem in problems_read}

    real_cluster.wait(lambda: "queue-inactive" in problems(), what="Kueue to see that the check is not active")
    provisioning = problems()["queue-provisioning"]
    assert provisioning.severity == "warning"
    assert f"AdmissionCheck {cluster_namespace} (ProvisioningRequest)" in provisioning.message
    assert "slices-missing" not in problems()
