"""Kueue's Workloads as read (study: infra §2.4, §3.1)."""

from __future__ import annotations

from typing import Any

from xsft.cluster.objects import PENDING_WORKLOAD, WORKLOAD, queues_of, typed


def workload(name: str = "jobset-w-1a2b3", queue: str = "q", **conditions: str) -> dict[str, Any]:
    condition_list = [{"type": kind, "status": status, "reason": "r"} for kind, status in conditions.items()]
    owner = [{"kind": "JobSet", "name": "w", "uid": "u-1"}]
    spec = {"queueName": queue, "priority": -5, "active": True}
    status = {"conditions": condition_list, "admission": {"clusterQueue": "cluster-queue"}}
    return {"metadata": {"name": name, "ownerReferences": owner}, "spec": spec, "status": status}


def test_an_admitted_workload_holds_quota() -> None:
    json = workload(QuotaReserved="True", Admitted="True")
    json["status"]["admission"]["podSetAssignments"] = [{"resourceUsage": {"google.com/tpu": "512", "cpu": "8"}}] * 2
    seen = typed(json, WORKLOAD)
    assert (seen.owner.uid, seen.owner.name, seen.name, seen.spec.queue_name) == ("u-1", "w", "jobset-w-1a2b3", "q")
    assert (seen.cluster_queue, seen.spec.priority, seen.holds) == ("cluster-queue", -5, "1024 google.com/tpu")
    assert not seen.waits


def test_a_finished_workload_holds_no_quota() -> None:
    assert typed(workload(QuotaReserved="True", Finished="True"), WORKLOAD).cluster_queue is None


def test_a_preempted_workload_waits_again_and_counts_preemptions() -> None:
    json = workload(QuotaReserved="False", Evicted="True")
    json["status"]["schedulingStats"] = {"evictions": [{"reason": "Preempted", "count": 2}, {"count": 1}]}
    seen = typed(json, WORKLOAD)
    assert seen.waits
    assert seen.evictions == 3


def test_a_deactivated_workload_does_not_wait() -> None:
    json = workload(QuotaReserved="False")
    json["spec"]["active"] = False
    assert not typed(json, WORKLOAD).waits


def test_the_fullest_queue_comes_first() -> None:
    pending = [typed(workload(queue=queue), WORKLOAD) for queue in ("a", "b", "b", "c")]
    assert queues_of([*pending, typed(workload(queue="d", QuotaReserved="True"), WORKLOAD)]) == ("b", "a", "c")


def test_queue_positions_are_those_of_kueue() -> None:
    item = {
        "metadata": {
            "name": "jobset-w-1a2b3",
            "namespace": "default",
            "ownerReferences": [{"kind": "JobSet", "name": "w"}],
        },
        "priority": 500,
        "localQueueName": "q",
        "positionInClusterQueue": 4,
        "positionInLocalQueue": 2,
    }
    seen = typed(item, PENDING_WORKLOAD)
    assert (seen.local_queue_name, seen.priority, seen.position_in_local_queue) == ("q", 500, 2)
    assert seen.metadata.jobset_owner.name == "w"
