"""Reads of a cluster before a create, against the stand-in: every object that is needed, and no change."""

from __future__ import annotations

import pytest

from tests.cluster.test_cluster import planned
from tests.fakes.clusters import ClusterApi
from tests.faults.world import deny
from tests.stories import intent_of, spec_of, varied
from tests.submissions import good_image
from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.checks.admission import UnreadFact
from xsft.launch.admission import examine
from xsft.launch.notes import start_notes
from xsft.planning.planner import make_plan
from xsft.planning.steps import Plan


def plan(name: str = "deepseek_ultrachat", *, namespace: str = "default", **changes: object) -> Plan:
    spec = varied(spec_of(name), {"namespace": namespace, **changes})
    return make_plan(intent_of(spec), rendered=planned(name, namespace=namespace), file="x.yaml")


def plan_for(api: ClusterApi, name: str = "deepseek_ultrachat", **changes: object) -> Plan:
    return plan(name, namespace=api.namespace, **changes)


TOKEN = {"secrets.hf_token": {"secret": "hf", "key": "token"}}


@pytest.mark.parametrize("name", ["deepseek_ultrachat", "deepseek_ultrachat_mcjax"])
def test_examine_finds_no_problem_on_a_cluster_that_xpk_created(cluster_api: ClusterApi, name: str) -> None:
    cluster = cluster_api.connect()
    cluster.create_secret(name="hf", namespace=cluster_api.namespace, data={"token": b"x"})
    facts, problems = examine(cluster, plan_for(cluster_api, name, **TOKEN))
    assert problems == ()
    assert (facts.jobsets, facts.same_name, facts.secrets) == ((), None, {"hf": frozenset({"token"})})
    assert {request.method for request in cluster_api.server.seen[1:]} == {"GET"}


def test_all_missing_values_are_reported_at_once(cluster_api: ClusterApi) -> None:
    cluster_api.world.limit_chips(256)
    cluster_api.world.remove_priority("medium")
    _, problems = examine(cluster_api.connect(), plan_for(cluster_api, **TOKEN))
    assert {p.id for p in problems if p.severity != "note"} == {
        "quota-too-small",
        "priority-class-missing",
        "secret-missing",
    }
    assert any("high" in p.message for p in problems if p.id == "priority-class-missing")


def test_a_missing_queue_is_reported_with_the_known_queues(cluster_api: ClusterApi) -> None:
    _, problems = examine(cluster_api.connect(), plan_for(cluster_api, queue="nosuch"))
    assert [p.id for p in problems if p.severity != "note"] == ["queue-missing"]
    assert "multislice-queue" in problems[0].message


def hold_a_slice(api: ClusterApi, *, queue: bool = False, phase: str = "Running") -> None:
    """Put a JobSet there whose first pod runs on a slice, as no Kueue started it."""
    labels = {"kueue.x-k8s.io/queue-name": "q"} if queue else {}
    objects = api.standin.objects
    objects.add("jobset.x-k8s.io/jobsets", "manual", namespace="team", metadata={"labels": labels}, spec={})
    selector = {"jobset.sigs.k8s.io/jobset-name": "manual", "batch.kubernetes.io/job-completion-index": "0"}
    on_node = {"spec": {"nodeName": "gke-tpu-np-0-017"}, "status": {"phase": phase}}
    objects.add("/pods", "manual-0", namespace="team", metadata={"labels": selector}, **on_node)


@pytest.mark.standin_only("held")
def test_a_slice_held_by_a_jobset_without_a_queue_is_not_free(cluster_api: ClusterApi) -> None:
    hold_a_slice(cluster_api)
    _, problems = examine(cluster_api.connect(), plan_for(cluster_api))
    (reported,) = (problem for problem in problems if problem.severity != "note")
    assert reported.id == "slices-unavailable"
    assert "tpu-np-0 (held by the JobSet team/manual, which is in no queue)" in reported.message
    assert "-n team get jobset manual" in reported.fix


@pytest.mark.standin_only("held")
def test_jobsets_that_ended_or_have_a_queue_hold_no_slice(cluster_api: ClusterApi) -> None:
    cluster, plan = cluster_api.connect(), plan_for(cluster_api)
    hold_a_slice(cluster_api, phase="Succeeded")
    assert examine(cluster, plan)[0].occupied == {}
    hold_a_slice(cluster_api, queue=True)
    assert examine(cluster, plan)[0].occupied == {}
    hold_a_slice(cluster_api)
    deny(cluster_api.world, ("list", "pods"))
    _, problems = examine(cluster, plan)
    assert any("whether a JobSet without a queue holds a slice." in problem.message for problem in problems)
    assert {problem.severity for problem in problems} == {"note"}


KUEUE_CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nwaitForPodsReady: {timeout: 1m}\n"


def limit_start(api: ClusterApi) -> None:
    """Kueue evicts a run whose pods are not ready after a minute."""
    data = {"controller_manager_config.yaml": KUEUE_CONFIG}
    api.standin.objects.add("/configmaps", "kueue-manager-config", namespace="kueue-system", data=data)


@pytest.mark.standin_only("kueue-configured")
def test_a_run_that_kueue_evicts_while_it_starts_is_a_warning(cluster_api: ClusterApi) -> None:
    limit_start(cluster_api)
    run_plan = plan_for(cluster_api)
    facts, problems_read = examine(cluster_api.connect(), run_plan)
    image = good_image("i")
    assert facts.ready_timeout_s == 60
    (problem,) = start_notes(run_plan, image, facts, found=problems_read)
    assert (problem.id, problem.severity) == ("ready-timeout", "warning")
    assert "4.29 GB at about 50 MB a second" in problem.message
    assert start_notes(run_plan, None, facts, found=problems_read) == ()
    deny(cluster_api.world, ("get", "configmaps"))
    assert examine(cluster_api.connect(), run_plan)[0].ready_timeout_s is None


@pytest.mark.standin_only("kueue-configured")
def test_a_check_that_adds_nodes_is_named_and_no_node_is_missed(cluster_api: ClusterApi) -> None:
    objects = cluster_api.standin.objects
    rule = {"admissionChecks": [{"name": "dws"}]}
    objects.of("kueue.x-k8s.io/clusterqueues")["", "cluster-queue"]["spec"]["admissionChecksStrategy"] = rule
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    objects.add("kueue.x-k8s.io/admissionchecks", "dws", spec=controller, status=active)
    facts, problems = examine(cluster_api.connect(), plan_for(cluster_api))
    assert [(problem.id, problem.severity) for problem in problems] == [("queue-provisioning", "note")]
    assert facts.selected == {}


def test_examine_returns_earlier_attempts_and_the_jobset_of_the_same_name(cluster_api: ClusterApi) -> None:
    run_plan = plan_for(cluster_api)
    assert run_plan.manifest is not None
    cluster = cluster_api.connect()
    cluster.create_jobset(run_plan.manifest)
    facts, _ = examine(cluster, run_plan)
    assert facts.same_name is not None
    assert [o["metadata"]["uid"] for o in facts.jobsets] == [facts.same_name["metadata"]["uid"]]


def test_objects_without_read_permission_are_unseen_with_a_warning(cluster_api: ClusterApi) -> None:
    deny(cluster_api.world, ("get", "clusterqueues"), ("get", "secrets"), ("get", "namespaces"))
    facts, problems = examine(cluster_api.connect(), plan_for(cluster_api, **TOKEN))
    assert isinstance(facts.cluster_queue, UnreadFact)
    assert {(p.id, p.severity) for p in problems if p.severity != "note"} == {("admission-unseen", "warning")}


def test_an_expired_login_is_not_a_missing_permission(cluster_api: ClusterApi) -> None:
    cluster_api.server.fail(".", code=401, times=99)
    with pytest.raises(Unreachable) as caught:
        examine(cluster_api.connect(), plan_for(cluster_api))
    assert caught.value.problem_id == "login-expired"


@pytest.mark.standin_only("not-installed")
def test_a_cluster_without_kueue_is_an_environment_problem(cluster_api: ClusterApi) -> None:
    cluster_api.standin.objects.uninstall("kueue.x-k8s.io")
    with pytest.raises(EnvironmentMissing):
        examine(cluster_api.connect(), plan_for(cluster_api))
