"""The real JobSet and Kueue accept what `xsft submit` creates: admitted, all its Jobs made, all its pods running.

xsft has a kubeconfig of the real cluster; only the bucket is a stand-in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import small_files
from tests.contract.commandline import INPUTS, Machine, machine
from tests.control_plane.api import Cluster
from tests.control_plane.rest import MERGE, each
from tests.fakes.clusters import ClusterApi, reaching
from tests.stories import NAMES, facts_for, spec_of
from xsft.environments.installed import BuiltEnvironment
from xsft.launcher.readback import missing_values
from xsft.spec.resolve import resolve

pytestmark = [pytest.mark.cluster, pytest.mark.contract]

SHIPPED = tuple(name for name in NAMES if spec_of(name).target == "xpk")
CONVERTED = tuple(one for one in map(spec_of, SHIPPED) if one.model.hf is not None)
"""Their weights must be there before they are submitted."""
FOUR: dict[str, Any] = {
    "tpu": {"type": "v6e-256", "num_slices": 4},
    "parallelism": {"ici": {"fsdp": 16, "expert": 16}, "dcn": {"fsdp": 2, "data": 2}},
}


@pytest.fixture
def api(real_cluster: Cluster, tmp_path: Path) -> Iterator[ClusterApi]:
    with reaching(real_cluster, tmp_path, gated=False) as cluster_apis:
        yield cluster_apis


@pytest.fixture
def here(tmp_path: Path, xpk_environment: BuiltEnvironment, api: ClusterApi) -> Iterator[Machine]:
    with machine(tmp_path, environments=xpk_environment.folder.parent, api=api) as equipment:
        for spec in CONVERTED:
            path = (resolve(spec, facts_for(spec))[0].checkpoint or "").removeprefix("gs://my-bucket/")
            files = small_files(spec.model.name)
            equipment.bucket.objects |= {f"{path}/{name}": files[name] for name in files}
        yield equipment


@pytest.fixture(scope="session")
def spot_nodes(real_cluster: Cluster) -> None:
    """The small slices are spot machines as well; their label asks for nothing of who does not."""
    node_list = real_cluster.api("GET", "/api/v1/nodes?labelSelector=cloud.google.com/gke-tpu-topology%3D2x4")["items"]
    spot = {"metadata": {"labels": {"cloud.google.com/gke-spot": "true"}}}
    names = [node["metadata"]["name"] for node in node_list]
    each(lambda name: real_cluster.api("PATCH", f"/api/v1/nodes/{name}", spot, content=MERGE), names)


@pytest.mark.usefixtures("spot_nodes")
@pytest.mark.parametrize("story", SHIPPED)
def test_every_shipped_workload_runs(here: Machine, real_cluster: Cluster, story: str) -> None:
    runs(here, real_cluster, here.workload(story))


def test_a_workload_of_four_slices_runs(here: Machine, real_cluster: Cluster) -> None:
    """All that the cluster has; the shipped workloads take one and two."""
    runs(here, real_cluster, here.workload("deepseek_ultrachat", **FOUR))


def runs(here: Machine, cluster: Cluster, workload: Path) -> None:
    """Create the run, and wait until it runs: each pod on a node of its own, each slice in one node pool."""
    namespace = here.api.namespace
    with_secrets(here, cluster)
    planned = json.loads(here.xsft("plan", workload, "--json").stdout)
    done = here.xsft("submit", workload, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["action"] == "created"
    assert {p["id"] for p in document["problems"]} & {"read-back-differs", "not-read-back", "jobs-not-checked"} == set()
    (jobset,) = here.jobsets
    cluster.wait(lambda: admitted(cluster, namespace), what="Kueue to admit it")
    replicated = jobset["spec"]["replicatedJobs"]
    jobs = sum(job["replicas"] for job in replicated)
    cluster.wait(lambda: len(jobs_of(cluster, namespace)) == jobs, what=f"{jobs} Jobs")
    pods = sum(job["replicas"] * job["template"]["spec"]["parallelism"] for job in replicated)
    running = cluster.wait_pods(namespace, "", count=pods)
    assert len({pod["spec"]["nodeName"] for pod in running}) == pods
    pools = {(job_of(pod), pod["spec"]["nodeName"].rpartition("-")[0]) for pod in running}
    assert len(pools) == jobs
    (jobset,) = here.jobsets
    assert missing_values(planned["plans"][0]["manifest"], jobset) == [], "what Kueue writes as it admits is its own"
    again = json.loads(here.xsft("submit", workload, "--json").stdout)
    assert (again["action"], again["uid"]) == ("adopted", document["uid"])


def with_secrets(here: Machine, cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{here.api.namespace}/secrets"
    cluster.api("POST", path, {"metadata": {"name": "hf-token"}, "data": {"token": "eA=="}})
    assert here.bucket.objects.keys() >= INPUTS.keys()


def admitted(cluster: Cluster, namespace: str) -> bool:
    workload_list = cluster.api("GET", f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")["items"]
    conditions = [
        condition for workload in workload_list for condition in workload.get("status", {}).get("conditions", ())
    ]
    return any(condition["type"] == "Admitted" and condition["status"] == "True" for condition in conditions)


def job_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"])


def jobs_of(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return list(cluster.api("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"])
