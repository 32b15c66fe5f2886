"""Pods as read, with the labels JobSet 0.10.1 gives them."""

from __future__ import annotations

from typing import Any

import pytest

from tests import observations
from tests.fakes.kuberules import selected
from xsft.cluster.objects import typed
from xsft.cluster.observation import ReplicatedJob, RunObject
from xsft.cluster.pod_fields import (
    POD,
    ContainerEnd,
    ContainerStart,
    ContainerWait,
    first_hosts_selector,
    pods_selector,
)
from xsft.records.jobset_paths import FIRST_HOSTS


def pod(jobset: str = "w", job: str = "slice-job", *, index: int = 0, host: int = 0, **status: Any) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": jobset,
        "jobset.sigs.k8s.io/replicatedjob-name": job,
        "jobset.sigs.k8s.io/job-index": str(index),
        "jobset.sigs.k8s.io/restart-attempt": "1",
        "batch.kubernetes.io/job-completion-index": str(host),
    }
    metadata = {"name": f"{jobset}-{job}-{index}-{host}-abcde", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Pending", **status}}


def made(mode: str | None, *jobs: str) -> RunObject:
    rows = tuple(ReplicatedJob(name=name, replicas=1) for name in jobs)
    return observations.jobset("w", mode=mode, jobs=rows)


def test_place_containers_and_memory_of_a_pod_are_read() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "Back-off"}}
    before = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "m", "finishedAt": "f"}}
    init = {"name": "pathways-rm", "state": {"running": {"startedAt": "t"}}, "lastState": {}}
    status = {"name": "jax-tpu", "restartCount": 3, "state": waiting, "lastState": before}
    limited = {"containers": [{"name": "jax-tpu", "resources": {"limits": {"memory": "12Gi"}}}, {"name": "other"}]}
    json = {**pod(index=1, host=5, initContainerStatuses=[init], containerStatuses=[status]), "spec": limited}
    seen = typed(json, POD)
    assert (seen.jobset, seen.replicated_job, seen.slice_index, seen.host, seen.attempt) == ("w", "slice-job", 1, 5, 1)
    first, second = seen.containers
    assert (first.name, first.state.running, first.failures) == ("pathways-rm", ContainerStart(started_at="t"), ())
    assert second.state.waiting == ContainerWait(reason="CrashLoopBackOff", message="Back-off")
    end = ContainerEnd(reason="OOMKilled", message="m", exit_code=137, finished_at="f")
    assert (second.restart_count, second.failed, second.failures) == (3, False, (end,))
    assert seen.trainer_container == "jax-tpu"
    assert [seen.memory_limit(name) for name in ("jax-tpu", "other", "none")] == ["12Gi", "", ""]


@pytest.mark.parametrize(
    ("jobset", "printer"),
    [
        (made("mcjax", "slice-job"), pod(job="slice-job")),
        (made("pathways", "pathways-head", "worker"), pod(job="pathways-head")),
        (made(None, "main", "side"), pod(job="main")),
    ],
    ids=["mcjax", "pathways", "unknown mode"],
)
def test_exactly_one_pod_of_a_run_prints_steps(jobset: RunObject, printer: dict[str, Any]) -> None:
    others = [pod(job=job.name, index=index, host=host) for job in jobset.jobs for index in (0, 1) for host in (0, 1)]
    printing = [other for other in others if jobset.prints_steps(typed(other, POD))]
    assert printing == [printer]
    assert selected(printer, first_hosts_selector(["w", "x"]))
    assert not selected(printer, first_hosts_selector(["x"]))
    assert not selected(pod("w2"), pods_selector(["w"]))
    assert selected(printer, FIRST_HOSTS)
    assert not selected(pod(host=1), FIRST_HOSTS)
