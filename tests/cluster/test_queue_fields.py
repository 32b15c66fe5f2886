"""Kueue's Workloads as read (study: infra §2.4, §3.1)."""

from __future__ import annotations

from typing import Any

from xsft.cluster.objects import typed
from xsft.cluster.observation import KueueWorkload
from xsft.cluster.queue_fields import PENDING_WORKLOAD, parse_workload, queues_of, waits, with_positions


def parsed(json: dict[str, Any]) -> KueueWorkload:
    found = parse_workload(json)
    assert found is not None
    return found


def workload(name: str = "jobset-w-1a2b3", queue: str = "q", **conditions: str) -> dict[str, Any]:
    said = [{"type": kind, "status": status, "reason": "r"} for kind, status in conditions.items()]
    owner = [{"kind": "JobSet", "name": "w", "uid": "u-1"}]
    spec = {"queueName": queue, "priority": -5, "active": True}
    status = {"conditions": said, "admission": {"clusterQueue": "cluster-queue"}}
    return {"metadata": {"name": name, "ownerReferences": owner}, "spec": spec, "status": status}


def test_an_admitted_workload_holds_quota() -> None:
    json = workload(QuotaReserved="True", Admitted="True")
    json["status"]["admission"]["podSetAssignments"] = [{"resourceUsage": {"google.com/tpu": "512", "cpu": "8"}}] * 2
    seen = parsed(json)
    assert (seen.owner_uid, seen.jobset, seen.name, seen.queue) == ("u-1", "w", "jobset-w-1a2b3", "q")
    assert (seen.cluster_queue, seen.priority, seen.holds) == ("cluster-queue", -5, "1024 google.com/tpu")
    assert not waits(seen)


def test_a_finished_workload_holds_no_quota() -> None:
    assert parsed(workload(QuotaReserved="True", Finished="True")).cluster_queue is None


def test_a_preempted_workload_waits_again_and_counts_preemptions() -> None:
    json = workload(QuotaReserved="False", Evicted="True")
    json["status"]["schedulingStats"] = {"evictions": [{"reason": "Preempted", "count": 2}, {"count": 1}]}
    seen = parsed(json)
    assert waits(seen)
    assert seen.evictions == 3


def test_a_deactivated_workload_does_not_wait() -> None:
    json = workload(QuotaReserved="False")
    json["spec"]["active"] = False
    assert not waits(parsed(json))


def test_the_fullest_queue_comes_first() -> None:
    pending = [parsed(workload(queue=queue)) for queue in ("a", "b", "b", "c")]
    assert queues_of([*pending, parsed(workload(queue="d", QuotaReserved="True"))]) == ("b", "a", "c")


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
    assert seen.metadata.jobset_owner is not None
    assert seen.metadata.jobset_owner.name == "w"
    assert with_positions(parsed(workload()), {"jobset-w-1a2b3": 2}).position == 2
    assert with_positions(parsed(workload()), {"another": 2}).position is None
