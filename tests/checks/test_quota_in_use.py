"""Free quota of a queue and its cohort, and the workloads that hold the rest."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.checks.test_admission import CPU_FLAVOR, TPU_FLAVOR, facts, queue
from tests.checks.test_demand import demand
from tests.replacing import replace
from xsft.base.problems import Problem
from xsft.checks.admission import ClusterFacts, UnreadFact, admission_problems, shortages_in
from xsft.checks.quota_in_use import quota_holder_of

FLAVOR, CHIPS = "2xv6e-256", "google.com/tpu"


def using(chips: int, *, name: str = "cluster-queue", nominal: int = 512, **spec: Any) -> dict[str, Any]:
    resources = [{"name": CHIPS, "total": str(chips)}]
    status = {"flavorsReservation": [{"name": FLAVOR, "resources": resources}]}
    return {**queue(nominal, **spec), "metadata": {"name": name}, "status": status}


def workload(name: str, chips: int, *, cluster_queue: str = "cluster-queue") -> dict[str, Any]:
    """Return a Workload as Kueue writes it once it has given quota."""
    owner = {"kind": "JobSet", "name": name, "uid": "u"}
    pods = [{"name": "worker", "flavors": {CHIPS: FLAVOR}, "resourceUsage": {CHIPS: str(chips)}}]
    return {
        "metadata": {"name": f"jobset-{name}", "namespace": "team-a", "ownerReferences": [owner]},
        "spec": {},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"clusterQueue": cluster_queue, "podSetAssignments": pods},
        },
    }


def cluster(*queues: dict[str, Any], **changes: Any) -> ClusterFacts:
    return facts(cluster_queue=queues[0], cohort=queues, **changes)


def said(given: ClusterFacts) -> tuple[Problem, ...]:
    return admission_problems(given, demand("deepseek_ultrachat"))


def test_a_free_queue_is_no_problem() -> None:
    assert said(cluster(using(0))) == ()


def test_queue_in_use_lists_the_holders_of_its_quota() -> None:
    held = tuple(
        filter(None, map(quota_holder_of, (workload("older", 256), workload("elsewhere", 9, cluster_queue="x"))))
    )
    (problem,) = said(cluster(using(256), holders=held))
    assert (problem.id, problem.severity) == ("quota-in-use", "warning")
    assert "requests 512 chips" in problem.message
    assert "ClusterQueue cluster-queue has 256 of 512 left in flavor 2xv6e-256" in problem.message
    assert problem.message.endswith("In use by: older in team-a (256).")


def test_unlisted_holders_of_quota_are_unknown() -> None:
    (problem,) = said(cluster(using(1)))
    assert "your login may not list Workloads" in problem.message


def test_cohort_lends_the_unused_quota_of_others() -> None:
    mine, other = using(0, nominal=256, cohort="all"), using(0, name="other", nominal=256, cohort="all")
    assert said(cluster(mine, other)) == ()
    (problem,) = said(cluster(mine, using(128, name="other", nominal=256, cohort="all")))
    assert problem.id == "quota-in-use"
    assert "cluster-queue (cohort all) has 384 of 512 left" in problem.message


def test_request_above_the_whole_cohort_is_too_large() -> None:
    mine, other = using(0, nominal=128, cohort="all"), using(0, name="other", nominal=256, cohort="all")
    assert [p.id for p in said(cluster(mine, other))] == ["quota-too-small"]


def test_quota_excludes_what_other_queues_do_not_lend() -> None:
    mine, other = using(0, nominal=256, cohort="all"), using(0, name="other", nominal=256, cohort="all")
    other["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = 128
    assert [p.id for p in said(cluster(mine, other))] == ["quota-too-small"]


def test_unreadable_cohort_is_a_note() -> None:
    given = facts(cluster_queue=queue(256, cohort="all"), cohort=UnreadFact(why="You may not."))
    assert [(p.id, p.severity) for p in said(given)] == [("cluster-not-read", "note")]
    assert shortages_in(given, demand("deepseek_ultrachat")) == ()


def test_unread_flavor_is_not_checked() -> None:
    assert said(replace(cluster(using(512)), flavors={"cpu-user": CPU_FLAVOR})) == ()
    assert said(replace(cluster(using(512)), flavors={FLAVOR: TPU_FLAVOR, "cpu-user": CPU_FLAVOR})) != ()


def test_a_workload_without_quota_holds_nothing() -> None:
    waiting = workload("w", 1)
    waiting["status"] = {}
    assert quota_holder_of(waiting) is None


def test_a_cohort_object_adds_its_own_quota() -> None:
    """kueue@v0.19.2 apis/kueue/v1beta1/cohort_types.go: on top of that of its ClusterQueues."""
    mine = using(0, nominal=256, cohort="all")
    shared = {"metadata": {"name": "all"}, "spec": {"resourceGroups": queue(256)["spec"]["resourceGroups"]}}
    assert [p.id for p in said(cluster(mine))] == ["quota-too-small"]
    assert said(cluster(mine, shared)) == ()
    (problem,) = said(cluster(using(128, nominal=256, cohort="all"), shared))
    assert "has 384 of 512 left" in problem.message


def cohort(name: str, chips: int, **limits: Any) -> dict[str, Any]:
    groups = copy.deepcopy(queue(chips)["spec"]["resourceGroups"])
    groups[0]["flavors"][0]["resources"][0] |= {key: limits.pop(key) for key in [*limits] if key.endswith("Limit")}
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups, **limits}}


def test_nested_cohort_borrows_the_unused_quota_of_its_parent() -> None:
    org = cohort("org", 128), cohort("team", 0, parentName="org"), cohort("others", 0, parent="org")
    elsewhere = using(0, name="elsewhere", nominal=256, cohort="others")
    mine = using(0, nominal=128, cohort="team")
    assert said(cluster(mine, elsewhere, *org)) == ()
    held = tuple(filter(None, [quota_holder_of(workload("theirs", 64, cluster_queue="elsewhere"))]))
    busy = using(64, name="elsewhere", nominal=256, cohort="others")
    (problem,) = said(cluster(mine, busy, *org, holders=held))
    assert "ClusterQueue cluster-queue (cohort team below org) has 448 of 512 left" in problem.message
    assert problem.message.endswith("In use by: theirs in team-a (64).")


@pytest.mark.parametrize(
    ("limits", "of"),
    [({"borrowingLimit": 300}, 428), ({"borrowingLimit": 0}, 128), ({"lendingLimit": 0}, 512), ({}, 512)],
)
def test_limits_of_a_cohort_are_applied(limits: dict[str, int], of: int) -> None:
    org, team = cohort("org", 384), cohort("team", 0, parentName="org", **limits)
    found = said(cluster(using(0, nominal=128, cohort="team"), org, team))
    assert [p.id for p in found] == ([] if of >= 512 else ["quota-too-small"])
    assert all(f"the maximum of the ClusterQueue cluster-queue is {of}" in p.message for p in found)


def test_a_queue_that_lends_nothing_keeps_its_quota() -> None:
    mine, other = using(0, nominal=512, cohort="all"), using(512, name="other", nominal=0, cohort="all")
    assert [p.id for p in said(cluster(mine, other))] == ["quota-in-use"]
    mine["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = 0
    assert said(cluster(mine, using(0, name="other", nominal=0, cohort="all"))) == ()


def test_cyclic_cohorts_are_evaluated_without_a_loop() -> None:
    circle = cohort("a", 256, parentName="b"), cohort("b", 256, parentName="a")
    assert said(cluster(using(0, nominal=0, cohort="a"), *circle)) == ()
