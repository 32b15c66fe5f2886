"""Actions of a pod that a test can choose: stages.yaml, one by one, and its logs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.control_plane.api import Cluster

pytestmark = pytest.mark.cluster
Make = Callable[..., str]


@pytest.fixture
def make(real_cluster: Cluster, cluster_namespace: str) -> Make:
    """Make a plain pod with these annotations; returns its name, which is also its label `app`."""

    def pod(name: str, **notes: str) -> str:
        body = {
            "metadata": {
                "name": name,
                "labels": {"app": name},
                "annotations": {f"fake/{key.replace('_', '-')}": value for key, value in notes.items()},
            },
            "spec": {
                "restartPolicy": "Never",
                "initContainers": [{"name": "side", "image": "s", "restartPolicy": "Always"}],
                "containers": [{"name": "jax-tpu", "image": "i", "command": ["c"]}],
            },
        }
        path = f"/api/v1/namespaces/{cluster_namespace}/pods"
        real_cluster.patiently(lambda: real_cluster.api("POST", path, body))  # the default ServiceAccount comes soon
        return name

    return pod


@pytest.fixture
def status(real_cluster: Cluster, cluster_namespace: str) -> Callable[[str], dict[str, Any]]:
    return lambda name: dict(real_cluster.api("GET", f"/api/v1/namespaces/{cluster_namespace}/pods/{name}")["status"])


def container(status: dict[str, Any]) -> dict[str, Any]:
    (container_status,) = status.get("containerStatuses") or [{}]
    return dict(container_status)


def test_a_pod_runs_and_ends_as_annotated(
    real_cluster: Cluster, cluster_namespace: str, make: Make, status: Any
) -> None:
    make("good", end="0", end_after="500ms")
    make("bad")
    real_cluster.wait_pods(cluster_namespace, "app=bad", count=1)
    assert {
        init_container_status["name"]: init_container_status["ready"]
        for init_container_status in status("bad")["initContainerStatuses"]
    } == {"side": True}
    real_cluster.end(cluster_namespace, "app=bad", code=137, oom=True, message='out\nof: "memory"')
    real_cluster.wait_pods(cluster_namespace, "app=bad", count=1, phase="Failed")
    real_cluster.wait_pods(cluster_namespace, "app=good", count=1, phase="Succeeded")
    ended = container(status("bad"))["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (137, "OOMKilled", 'out\nof: "memory"')
    assert container(status("good"))["state"]["terminated"]["reason"] == "Completed"


def test_a_pod_waits_for_its_image(real_cluster: Cluster, cluster_namespace: str, make: Make, status: Any) -> None:
    make("pulling", pull="ImagePullBackOff", msg="Back-off pulling image")
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    real_cluster.wait(
        lambda: container(status("pulling")).get("state") == {"waiting": waiting}, what="the pull to fail"
    )
    assert status("pulling")["phase"] == "Pending"
    real_cluster.annotate_pod(cluster_namespace, "pulling", {"fake/pull": None})
    real_cluster.wait_pods(cluster_namespace, "app=pulling", count=1)


def test_a_pod_restarts_in_place_and_enters_a_crash_loop(
    real_cluster: Cluster, cluster_namespace: str, make: Make, status: Any
) -> None:
    make("loops", restarts="2", restart_code="3", ready_after="300ms")
    real_cluster.wait(lambda: container(status("loops")).get("restartCount") == 2, what="two restarts")
    again = container(status("loops"))
    assert (again["ready"], again["lastState"]["terminated"]["exitCode"]) == (True, 3)
    real_cluster.annotate_pod(cluster_namespace, "loops", {"fake/waiting": "CrashLoopBackOff"})
    real_cluster.wait(lambda: "waiting" in container(status("loops"))["state"], what="the crash loop")
    status_of_container = container(status("loops"))
    assert (status_of_container["ready"], status_of_container["state"]["waiting"]["reason"]) == (
        False,
        "CrashLoopBackOff",
    )


def test_logs_of_a_pod_are_read_and_followed(real_cluster: Cluster, cluster_namespace: str, make: Make) -> None:
    for name in ("talks", "silent"):
        make(name)
        real_cluster.wait_pods(cluster_namespace, f"app={name}", count=1)
    logs = ("-n", cluster_namespace, "logs", "-c", "jax-tpu")
    real_cluster.write_logs(cluster_namespace, "app=talks", ["one", "two"])
    real_cluster.write_logs(cluster_namespace, "app=talks", ["before"], previous=True)
    assert real_cluster.kubectl(*logs, "talks") == "one\ntwo\n"
    assert real_cluster.kubectl(*logs, "talks", "--previous") == "before\n"
    assert real_cluster.kubectl(*logs, "silent") == ""
    program = real_cluster.layout.tools.program("kubectl")
    env = {**os.environ, "KUBECONFIG": str(real_cluster.kubeconfig)}
    with subprocess.Popen((program, *logs, "-f", "talks"), env=env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert [follower.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        real_cluster.write_logs(cluster_namespace, "app=talks", ["three"])
        assert follower.stdout.readline() == "three\n"
        follower.kill()
