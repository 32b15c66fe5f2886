"""Kueue's Workloads as read (study: infra §2.4, §3.1)."""

from __future__ import annotations

from typing import Any

from xsft.cluster.queue_fields import owned, queues_of, waiting_of, waits, with_positions, workload_of


def workload(name: str = "jobset-w-1a2b3", queue: str = "q", **conditions: str) -> dict[str, Any]:
    said = [{"type": kind, "status": status, "reason": "r"} for kind, status in conditions.items()]
    owner = [{"kind": "JobSet", "name": "w", "uid": "u-1"}]
    spec = {"queueName": queue, "priority": -5, "active": True}
    status = {"conditions": said, "admission": {"clusterQueue": "cluster-queue"}}
    return {"metadata": {"name": name, "ownerReferences": owner}, "spec": spec, "status": status}


def test_an_admitted_workload_holds_quota() -> None:
    seen = owned(workload(QuotaReserved="True", Admitted="True"))
    assert (seen.owner, seen.workload.name, seen.workload.queue) == ("u-1", "jobset-w-1a2b3", "q")
    assert (seen.workload.cluster_queue, seen.workload.priority) == ("cluster-queue", -5)
    assert not waits(seen.workload)


def test_a_finished_workload_holds_no_quota() -> None:
    assert workload_of(workload(QuotaReserved="True", Finished="True")).cluster_queue is None


def test_a_preempted_workload_waits_again_and_counts_preemptions() -> None:
    json = workload(QuotaReserved="False", Evicted="True")
    json["status"]["schedulingStats"] = {"evictions": [{"reason": "Preempted", "count": 2}, {"count": 1}]}
    seen = workload_of(json)
    assert waits(seen)
    assert seen.evictions == 3


def test_a_deactivated_workload_does_not_wait() -> None:
    json = workload(QuotaReserved="False")
    json["spec"]["active"] = False
    assert not waits(workload_of(json))


def test_the_fullest_queue_comes_first() -> None:
    pending = [workload_of(workload(queue=queue)) for queue in ("a", "b", "b", "c")]
    assert queues_of([*pending, workload_of(workload(queue="d", QuotaReserved="True"))]) == ("b", "a", "c")


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
    seen = waiting_of(item)
    assert (seen.jobset, seen.queue, seen.priority, seen.position) == ("w", "q", 500, 2)
    assert with_positions(workload_of(workload()), {"jobset-w-1a2b3": 2}).position == 2
    assert with_positions(workload_of(workload()), {"another": 2}).position is None
