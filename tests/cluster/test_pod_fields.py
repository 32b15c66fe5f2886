"""Pods as read, with the labels JobSet 0.10.1 gives them."""

from __future__ import annotations

from typing import Any

import pytest

from tests import observations
from tests.fakes.kuberules import selected
from xsft.cluster.objects import Condition
from xsft.cluster.observation import Container, ReplicatedJob, RunObject
from xsft.cluster.pod_fields import first_hosts_selector, parse_pod, pods_selector, prints_steps, trainer_container
from xsft.records.labels import FIRST_HOSTS


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


def test_a_failed_image_pull_of_a_pod_is_read() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling"}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    seen = parse_pod(
        pod(
            index=1,
            host=5,
            conditions=[scheduled],
            initContainerStatuses=[{"name": "pathways-rm", "state": {"running": {"startedAt": "t"}}}],
            containerStatuses=[{"name": "jax-tpu", "restartCount": 3, "state": waiting}],
        )
    )
    assert (seen.jobset, seen.replicated_job, seen.slice_index, seen.host, seen.attempt) == ("w", "slice-job", 1, 5, 1)
    assert seen.conditions == (Condition(type="PodScheduled", status="True", at="2026-11-21T10:00:00Z"),)
    first, second = seen.containers
    assert first == Container(name="pathways-rm", state="running", started_at="t")
    assert (second.state, second.reason, second.restarts) == ("waiting", "ImagePullBackOff", 3)
    assert trainer_container(seen) == "jax-tpu"


def test_the_end_of_a_container_is_read() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "m", "finishedAt": "f"}}
    (container,) = parse_pod(pod(containerStatuses=[{"name": "jax-tpu", "state": ended}])).containers
    assert container == Container(
        name="jax-tpu", state="terminated", reason="OOMKilled", message="m", exit_code=137, finished_at="f"
    )


def test_the_memory_limit_of_a_container_is_read() -> None:
    rows = [{"name": name, "state": {"running": {}}} for name in ("jax-tpu", "other")]
    limited = {"containers": [{"name": "jax-tpu", "resources": {"limits": {"memory": "12Gi"}}}, {"name": "other"}]}
    seen = parse_pod({**pod(containerStatuses=rows), "spec": limited})
    assert [one.memory for one in seen.containers] == ["12Gi", ""]


def test_the_earlier_end_of_a_container_is_kept() -> None:
    before = {"terminated": {"exitCode": 1, "reason": "Error", "message": "why"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    row = {"name": "pathways-worker", "restartCount": 4, "state": waiting, "lastState": before}
    (container,) = parse_pod(pod(containerStatuses=[row])).containers
    assert (container.state, container.reason, container.restarts) == ("waiting", "CrashLoopBackOff", 4)
    assert container.last is not None
    assert (container.last.exit_code, container.last.message, container.last.last) == (1, "why", None)
    (fresh,) = parse_pod(pod(containerStatuses=[{**row, "lastState": {}}])).containers
    assert fresh.last is None


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
    printing = [one for one in others if prints_steps(parse_pod(one), jobset)]
    assert printing == [printer]
    assert selected(printer, first_hosts_selector(["w", "x"]))
    assert not selected(printer, first_hosts_selector(["x"]))
    assert not selected(pod("w2"), pods_selector(["w"]))
    assert selected(printer, FIRST_HOSTS)
    assert not selected(pod(host=1), FIRST_HOSTS)
