"""Conversions on a real control plane: beside a Pathways head, and in a queue of chips alone until it is mended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests import inprocess
from tests.cluster.test_cluster import planned as training
from tests.control_plane.api import Cluster
from tests.control_plane.queues import KUEUE, cluster_queue, local_queue
from tests.cpujobs import NAME, planned
from tests.fakes.clusters import ClusterApi
from tests.launch.test_admission import plan as plan_of
from xsft.base.problems import Problem
from xsft.catalog.machines import GIB
from xsft.cluster.cluster import Cluster as Connected
from xsft.launch.admission import examine
from xsft.launcher.cpujob import CpuJob
from xsft.planning.steps import JobPlan, Plan

pytestmark = pytest.mark.cluster
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
FLAVOR = "4xv6e-256"


@pytest.fixture
def connected(real_cluster: Cluster, cluster_namespace: str) -> Connected:
    cluster = ClusterApi(kubeconfig=real_cluster.kubeconfig, context=real_cluster.context).connect()
    cluster.create_secret(name="hf-token", namespace=cluster_namespace, data={"token": b"x"})
    return cluster


@pytest.fixture
def chips_only(real_cluster: Cluster, cluster_namespace: str) -> Iterator[str]:
    """A LocalQueue as `xpk cluster create` makes one: of chips alone."""
    body = cluster_queue(cluster_namespace, {FLAVOR: 1024})
    del body["spec"]["resourceGroups"][1]
    real_cluster.api("POST", f"{KUEUE}/clusterqueues", body)
    real_cluster.api("POST", *local_queue(cluster_namespace, name="own", cluster_queue=cluster_namespace))
    yield "own"
    real_cluster.empty_namespace(cluster_namespace)
    real_cluster.delete_queue(cluster_namespace)


def one_slice(namespace: str) -> dict[str, Any]:
    """The shown Pathways run, with its head and one slice instead of two."""
    manifest = training("deepseek_ultrachat", namespace=namespace)
    head, workers = manifest["spec"]["replicatedJobs"]
    workers["replicas"] = 1
    return {**manifest, "spec": {**manifest["spec"], "replicatedJobs": [head, workers]}}


def node_of(cluster: Cluster, namespace: str, jobset: str) -> str:
    (pod,) = cluster.wait_pods(namespace, f"jobset.sigs.k8s.io/jobset-name={jobset}", count=1)
    return str(pod["spec"]["nodeName"])


def test_two_conversions_and_a_pathways_head_share_a_pool(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_cluster.api("POST", JOBSETS.format(cluster_namespace), one_slice(cluster_namespace))
    sizes = {NAME: 12 * GIB, "second-convert": 200 * GIB}
    plans = [planned(namespace=cluster_namespace, name=name, memory=memory) for name, memory in sizes.items()]
    for plan in plans:
        assert examine(connected, plan)[1] == ()
        connected.dry_run_jobset(plan.manifest or {})
        assert connected.dry_run_jobs(plan.manifest or {}) == ()
        connected.create_jobset(plan.manifest or {})
    nodes = [node_of(real_cluster, cluster_namespace, plan.jobset) for plan in plans]
    head = "jobset.sigs.k8s.io/replicatedjob-name=pathways-head"
    (pod,) = real_cluster.wait_pods(cluster_namespace, head, count=1)
    pools = {real_cluster.api("GET", f"/api/v1/nodes/{name}")["metadata"]["labels"]["cloud.google.com/gke-nodepool"]
             for name in (*nodes, pod["spec"]["nodeName"])}  # fmt: skip
    assert pools == {"cpu-np"}
    assert killed(real_cluster, cluster_namespace, "second-convert", monkeypatch) == "oom-job"
    real_cluster.wait_used(256)
    assert obstacles(connected, whole_cluster(cluster_namespace)) == ()


def killed(cluster: Cluster, namespace: str, jobset: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The cause that `xsft why` gives once the node has killed the job's container for memory."""
    cluster.end(namespace, f"jobset.sigs.k8s.io/jobset-name={jobset}", code=137, oom=True)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    argv = ("why", jobset, "--context", cluster.context, "--namespace", namespace, "--json")

    def said() -> dict[str, Any]:
        return dict(json.loads(inprocess.xsft(*argv).stdout))

    cluster.wait(lambda: said().get("reason") == "oom-killed", what="the kill to be seen")
    cause = said()["cause"]
    assert "200Gi" in cause["message"]
    return str(cause["id"])


def obstacles(connected: Connected, plan: Plan) -> tuple[Problem, ...]:
    """The errors and warnings; the note on the identity of pods on TPU hosts stands beside them."""
    return tuple(problem for problem in examine(connected, plan)[1] if problem.severity != "note")


def whole_cluster(namespace: str) -> Plan:
    """The shown Pathways run with all four slices."""
    manifest = training("deepseek_ultrachat", namespace=namespace)
    manifest["spec"]["replicatedJobs"][1]["replicas"] = 4
    return replace(plan_of(namespace=namespace), manifest=manifest)


def test_a_queue_of_chips_admits_a_conversion_on_a_requested_slice(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected, chips_only: str
) -> None:
    """All hosts of the slice are taken; each knows which one it is, and only the first converts."""
    plan = planned(namespace=cluster_namespace, queue=chips_only, on_tpu=True, tpu={"type": "v6e-256"})
    real_cluster.wait(lambda: obstacles(connected, plan) == (), what="Kueue to serve the new queue")
    connected.dry_run_jobset(plan.manifest or {})
    connected.create_jobset(plan.manifest or {})
    pods = real_cluster.wait_pods(cluster_namespace, f"jobset.sigs.k8s.io/jobset-name={plan.jobset}", count=64)
    index = "batch.kubernetes.io/job-completion-index"
    assert sorted(int(pod["metadata"]["labels"][index]) for pod in pods) == list(range(64))
    names = {variable["name"] for pod in pods for variable in pod["spec"]["containers"][0]["env"]}
    assert "JOB_COMPLETION_INDEX" in names  # put there by Kubernetes


def test_a_queue_without_cpu_is_reported_and_the_named_command_fixes_it(
    real_cluster: Cluster, cluster_namespace: str, connected: Connected, chips_only: str
) -> None:
    plan = planned(namespace=cluster_namespace, queue=chips_only)
    real_cluster.wait(lambda: len(examine(connected, plan)[1]) == 1, what="Kueue to serve the new queue")
    (problem,) = examine(connected, plan)[1]
    assert problem.id == "queue-without-cpu"
    connected.create_jobset(plan.manifest or {})
    real_cluster.wait(lambda: "unavailable" in said_by_kueue(connected, plan), what="Kueue to refuse it")
    mend(real_cluster, problem.fix.partition(": ")[2])
    assert examine(connected, plan)[1] == ()
    assert node_of(real_cluster, cluster_namespace, plan.jobset).startswith("gke-cpu-np-")


def said_by_kueue(connected: Connected, plan: JobPlan[CpuJob]) -> str:
    objects = connected.reads.workloads(namespace=plan.run.namespace).objects
    conditions = [c for workload in objects for c in workload.conditions]
    return " ".join(c.message for c in conditions if c.status == "False")


def mend(cluster: Cluster, commands: str) -> None:
    """Run the commands as an administrator pastes them into a shell."""
    programs = Path(cluster.layout.tools.program("kubectl")).parent
    path = f"{programs}:{os.environ['PATH']}"
    env = {"PATH": path, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder)}  # kubectl's cache
    subprocess.run(("bash", "-c", f"set -e; {commands}"), env=env, check=True, capture_output=True, text=True)
