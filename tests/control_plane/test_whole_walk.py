"""`xsft run FILE` from a repository of the hub to a server, on a real control plane: two callers, each stage once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.api import Cluster
from tests.control_plane.played import EVALUATE, PlayedPods, playing
from tests.documents import read_document
from tests.servers import IMAGE
from xsft.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.cluster
NAME = "qwen3-gsm8k"
STAGES = ("convert", "train", "evaluate", "export", "serve")


@pytest.fixture
def pods(real_cluster: Cluster, tmp_path: Path, xpk_environment: BuiltEnvironment, chip: None) -> Iterator[PlayedPods]:
    with playing(real_cluster, tmp_path, name=NAME, xpk=xpk_environment) as played_pods:
        yield played_pods


def ended(caller: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Return what the caller printed once all stages are done."""
    output, _ = caller.communicate(timeout=300)
    document = read_document("run", output)
    assert (caller.returncode, document["exit_status"]) == (0, 0), output
    stages: list[dict[str, Any]] = document["stages"]
    assert [(stage["name"], stage["state"]) for stage in stages] == [(name, "done") for name in STAGES]
    return stages


def test_two_callers_go_through_all_stages_and_each_is_done_once(pods: PlayedPods) -> None:
    file = pods.workload(evaluate=EVALUATE, export={}, serve={"image": IMAGE})
    argv = ("run", str(file), "--json", "--poll", "3s")
    callers = [pods.here.start(*argv) for _ in range(2)]
    pods.converts()
    pods.trains()
    pods.evaluates(says="1 plus 1 is 2.")
    folder = pods.exports()
    first, second = (ended(caller) for caller in callers)
    for stage_row, other in zip(first, second, strict=True):
        assert sorted((stage_row["action"], other["action"])) in (["adopted", "created"], ["created", "done"])
        assert stage_row["digest"] == other["digest"] is not None
    assert (first[2]["verdict"], first[3]["result"]) == ("passed", folder)
    created = objects(pods)
    assert [name for name, _ in created] == [
        f"{NAME}{end}" for end in ("-convert", "", "-evaluate", "-export", "-serve")
    ]
    records = [name for name in pods.here.bucket.objects if "/xsft/attempt-" in name and name.endswith(".json")]
    again = [name for name in records if "attempt-2" in name]
    assert all("-serve/" in name for name in again), again  # a caller that was second to create the server notes that
    second_pass = ended(pods.here.start(*argv))
    assert {stage_row["action"] for stage_row in second_pass} == {"done"}
    assert [stage_row["result"] for stage_row in second_pass] == [stage_row["result"] for stage_row in first]
    assert objects(pods) == created
    served = json.loads(pods.here.xsft("serve", file, "--json").stdout)
    assert (served["action"], served["uid"], served["folder"]) == ("adopted", created[-1][1], folder)


def objects(pods: PlayedPods) -> list[tuple[str, str]]:
    """Names and UIDs of what was created, in that order."""
    namespace = pods.here.api.namespace
    servers = pods.cluster.api("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
    return [
        (kube_object["metadata"]["name"], kube_object["metadata"]["uid"])
        for kube_object in (*pods.here.jobsets, *servers)
    ]
