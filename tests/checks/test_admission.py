"""Obstacles of a run on a given cluster, and facts that are unknown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.test_demand import demand
from tests.fakes.clusters import V6E_256, cluster_queue
from tests.kubeobjects import parsed
from tests.replacing import replace
from xsft.base.problems import Problem
from xsft.checks.admission import ClusterFacts, UnreadFact, admission_problems
from xsft.cluster.objects import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR

TPU_FLAVOR = {"spec": {"nodeLabels": V6E_256}}
LOCAL = {"spec": {"clusterQueue": "cluster-queue"}}
CPU_FLAVOR = {"spec": {"nodeLabels": {"cloud.google.com/gke-nodepool": "cpu-np"}}}


def facts(**changes: Any) -> ClusterFacts:
    """A cluster on which the flagship starts; its queues and flavors are parsed."""
    good = ClusterFacts(
        context="c",
        namespace={"metadata": {"name": "default", "labels": {"team": "a"}}},
        local_queue=None,
        known_queues=(),
        cluster_queue=None,
        flavors={},
        priority_classes={"medium": {}},
        known_priorities=(),
        secrets={},
        jobsets=(),
        same_name=None,
    )
    flavors = {"2xv6e-256": TPU_FLAVOR, "cpu-user": CPU_FLAVOR}
    changes = {"local_queue": LOCAL, "cluster_queue": queue(), "flavors": flavors, **changes}
    for name, kind in (("local_queue", LOCAL_QUEUE), ("cluster_queue", CLUSTER_QUEUE)):
        if isinstance(changes[name], dict):
            changes[name] = parsed(changes[name], kind)
    changes["flavors"] = {name: parsed(json, RESOURCE_FLAVOR) for name, json in changes["flavors"].items()}
    return replace(good, **changes)


def queue(chips: int = 512, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "cluster-queue"}, "spec": {**cluster_queue(chips), **spec}}


def said(cluster_facts: ClusterFacts, name: str = "deepseek_ultrachat", **changes: object) -> tuple[Problem, ...]:
    return admission_problems(cluster_facts, demand(name, **changes))


@pytest.mark.parametrize("name", ["deepseek_ultrachat", "deepseek_ultrachat_mcjax"])
def test_an_admissible_run_has_no_problems(name: str) -> None:
    assert said(facts(), name) == ()


@pytest.mark.parametrize(
    ("strategy", "pending", "ids"),
    [("StrictFIFO", 2, ["queue-in-order"]), ("StrictFIFO", 0, []), ("BestEffortFIFO", 2, [])],
)
def test_strict_queue_with_pending_workloads_is_reported(strategy: str, pending: int, ids: list[str]) -> None:
    strict = {**queue(queueingStrategy=strategy), "status": {"pendingWorkloads": pending}}
    assert [p.id for p in said(facts(cluster_queue=strict))] == ids


def test_only_the_missing_namespace_is_reported() -> None:
    assert [p.id for p in said(facts(namespace=None, local_queue=None, cluster_queue=None))] == ["namespace-missing"]


def test_a_missing_queue_names_the_known_ones() -> None:
    (problem,) = said(facts(local_queue=None, cluster_queue=None, known_queues=("a", "b")))
    assert (problem.id, problem.where) == ("queue-missing", "queue")
    assert "Known: a, b." in problem.message


def test_queue_without_cluster_queue_is_reported() -> None:
    assert [p.id for p in said(facts(cluster_queue=None))] == ["cluster-queue-missing"]


def test_request_above_the_quota_is_an_error() -> None:
    (problem,) = said(facts(cluster_queue=queue(256)))
    assert (problem.id, problem.severity, problem.where) == ("quota-too-small", "error", "tpu")
    assert "requests 512 chips" in problem.message
    assert "cluster-queue is 256." in problem.message


def test_quota_includes_what_the_cohort_lends() -> None:
    def lent(**limit: int) -> dict[str, Any]:
        borrowing = queue(256, cohort="all")
        borrowing["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0].update(limit)
        return borrowing

    assert said(facts(cluster_queue=lent())) == ()  # nobody here knows how much
    assert said(facts(cluster_queue=lent(borrowingLimit=256))) == ()
    assert [p.id for p in said(facts(cluster_queue=lent(borrowingLimit=255)))] == ["quota-too-small"]


def test_pathways_head_needs_quota() -> None:
    small = queue()
    small["spec"]["resourceGroups"][1]["flavors"][0]["resources"][0]["nominalQuota"] = "47"
    (problem,) = said(facts(cluster_queue=small))
    assert "pathways-head requests 48 cpu" in problem.message
    assert said(facts(cluster_queue=small), "deepseek_ultrachat_mcjax") == ()


def test_node_labels_that_no_flavor_has_are_a_mismatch() -> None:
    other = {"spec": {"nodeLabels": {**V6E_256, "cloud.google.com/gke-tpu-topology": "8x8"}}}
    (problem,) = said(facts(flavors={"2xv6e-256": other, "cpu-user": CPU_FLAVOR}))
    assert (problem.id, problem.where) == ("flavor-mismatch", "tpu.type")
    assert "gke-tpu-topology=16x16" in problem.message
    assert "gke-tpu-topology=8x8" in problem.message


def test_label_that_no_flavor_has_is_not_compared() -> None:
    plain = {"spec": {"nodeLabels": {}}}
    assert said(facts(flavors={"2xv6e-256": plain, "cpu-user": plain})) == ()


def test_taints_of_a_flavor_must_be_tolerated() -> None:
    def tainted(**taint: str) -> ClusterFacts:
        flavor = {"spec": {"nodeLabels": V6E_256, "nodeTaints": [{"effect": "NoSchedule", **taint}]}}
        return facts(flavors={"2xv6e-256": flavor, "cpu-user": CPU_FLAVOR})

    assert said(tainted(key="google.com/tpu", value="present")) == ()
    assert [p.id for p in said(tainted(key="team", value="b"))] == ["flavor-mismatch"]


def test_run_fits_a_second_flavor() -> None:
    both = queue(256)
    flavors = both["spec"]["resourceGroups"][0]["flavors"]
    flavors.append({"name": "more", "resources": [{"name": "google.com/tpu", "nominalQuota": 512}]})
    all_flavors = {"2xv6e-256": TPU_FLAVOR, "cpu-user": CPU_FLAVOR, "more": TPU_FLAVOR}
    assert said(facts(cluster_queue=both, flavors=all_flavors)) == ()


def test_pod_sets_of_one_flavor_share_its_quota() -> None:
    cluster_facts = facts(cluster_queue=queue(512))
    pods_needed = demand("deepseek_ultrachat_mcjax")
    twice = replace(pods_needed, pod_sets=(*pods_needed.pod_sets, replace(pods_needed.pod_sets[0], name="more")))
    (problem,) = admission_problems(cluster_facts, twice)
    assert "all its jobs together requests 1024 chips" in problem.message


def test_resource_without_quota_is_reported() -> None:
    bare = queue()
    bare["spec"]["resourceGroups"] = bare["spec"]["resourceGroups"][:1]
    assert {(p.id, p.severity) for p in said(facts(cluster_queue=bare))} == {("quota-uncovered", "warning")}
    bare["spec"]["resourceGroups"] = []
    errors = [p for p in said(facts(cluster_queue=bare)) if p.severity == "error"]
    assert [p.id for p in errors] == ["quota-uncovered"]


def test_unread_flavor_is_not_checked() -> None:
    assert said(facts(cluster_queue=queue(1), flavors={"cpu-user": CPU_FLAVOR})) == ()


@pytest.mark.parametrize(
    ("selector", "is_taken"),
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}, {"key": "team", "operator": "Exists"}]}, True),
    ],
)
def test_queue_selects_its_namespaces(selector: Any, is_taken: bool) -> None:
    problems = said(facts(cluster_queue=queue(namespaceSelector=selector)))
    assert [p.id for p in problems] == ([] if is_taken else ["queue-refuses-namespace"])


@pytest.mark.parametrize("kind", ["local_queue", "cluster_queue"])
@pytest.mark.parametrize(
    "how",
    [
        {"status": {"conditions": [{"type": "Active", "status": "False", "message": "is stopped"}]}},
        {"spec": {"stopPolicy": "Hold"}},
    ],
)
def test_a_stopped_queue_is_a_warning(kind: str, how: dict[str, Any]) -> None:
    active = {"local_queue": LOCAL, "cluster_queue": queue()}[kind]
    stopped = {**active, **how, "spec": {**active["spec"], **how.get("spec", {})}}
    assert [(p.id, p.severity) for p in said(facts(**{kind: stopped}))] == [("queue-inactive", "warning")]


def test_a_missing_priority_class_names_the_known_ones() -> None:
    (problem,) = said(facts(priority_classes={"medium": None}, known_priorities=("low",)))
    assert (problem.id, problem.where) == ("priority-class-missing", "priority")
    assert "Known: low." in problem.message


def test_missing_secrets_and_keys_are_reported() -> None:
    token = {"secrets.hf_token": {"secret": "hf", "key": "token"}}
    (missing,) = said(facts(secrets={"hf": None}), **token)
    assert (missing.id, missing.where) == ("secret-missing", "secrets.hf_token")
    assert "xsft secret create hf --key token" in missing.fix
    (keyless,) = said(facts(secrets={"hf": frozenset({"other"})}), **token)
    assert keyless.id == "secret-key-missing"
    assert "it has other" in keyless.message
    assert said(facts(secrets={"hf": frozenset({"token"})}), **token) == ()
    pull = {"image.pull_secret": "r"}
    assert [p.where for p in said(facts(secrets={"r": None}), **pull)] == ["image.pull_secret"]
    assert [p.id for p in said(facts(secrets={"r": frozenset({"password"})}), **pull)] == ["secret-key-missing"]
    assert said(facts(secrets={"r": frozenset({".dockerconfigjson"})}), **pull) == ()


def test_missing_read_rights_are_warnings() -> None:
    namespace, queue, priority, secret = (UnreadFact(why=f"You may not get {n}.") for n in range(4))
    blind = facts(
        namespace=namespace,
        local_queue=queue,
        cluster_queue=queue,  # for the same reason, which is said once
        priority_classes={"medium": priority},
        secrets={"x": secret},
    )
    problems = said(blind, **{"secrets.hf_token": {"secret": "x", "key": "token"}})
    assert {(p.id, p.severity) for p in problems} == {("admission-unseen", "warning")}
    assert [p.message.rpartition(": ")[2] for p in problems] == [f"You may not get {n}." for n in range(4)]
