"""A run that died before it saved anything, on a real control plane: the fix that `why` gives keeps its name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints import small_files
from tests.control_plane.api import Cluster
from tests.control_plane.played import PlayedPods, playing
from tests.stories import ROOT
from xsft.environments.installed import BuiltEnvironment

pytestmark = pytest.mark.cluster
NAME = "qwen3-gsm8k"
HBM = ROOT / "tests" / "failures" / "logs" / "hbm" / "hbm.log"
SHORTER = "train.max_target_length=32"


@pytest.fixture
def pods(real_cluster: Cluster, tmp_path: Path, xpk_environment: BuiltEnvironment) -> Iterator[PlayedPods]:
    with playing(real_cluster, tmp_path, name=NAME, xpk=xpk_environment) as played:
        yield played


def workload(pods: PlayedPods) -> Path:
    """Its weights are converted already, and it is not restarted."""
    weights = {f"qwen3/0/items/{name}": content for name, content in small_files("qwen3-0.6b").items()}
    pods.here.bucket.objects.update(weights)
    model = {"name": "qwen3-0.6b", "tokenizer": "Qwen/Qwen3-0.6B", "checkpoint": "gs://my-bucket/qwen3/0/items"}
    tpu = {"type": "v6e-8", "num_slices": 1}
    train = {"steps": 60, "max_target_length": 64, "per_device_batch_size": 1}
    return pods.here.workload(NAME.replace("-", "_"), model=model, tpu=tpu, train=train, stages={}, restarts={"max": 0})


def jobsets(pods: PlayedPods) -> list[str]:
    return sorted(pods.here.api.world.jobsets())


def test_a_run_that_died_for_memory_is_refused_unchanged_and_follows_changed(pods: PlayedPods) -> None:
    file = workload(pods)
    first = pods.here.xsft("submit", file, "--yes")
    assert first.returncode == 0, first.stderr
    pods.dies(HBM.read_text().splitlines())

    same = pods.here.xsft("submit", file, "--json")
    (problem,) = json.loads(same.stdout)["problems"]
    assert (same.returncode, problem["id"], jobsets(pods)) == (4, "ends-again", [NAME])
    assert "Attempt 1 of qwen3-gsm8k ended by its own error before anything was saved" in problem["message"]
    assert "memory (HBM) is too small" in problem["message"]
    assert "--again" in problem["fix"]

    changed = json.loads(pods.here.xsft("submit", file, "--json", "--set", SHORTER).stdout)
    assert (changed["action"], changed["jobset"]) == ("attempt", f"{NAME}-2")
    pods.dies(HBM.read_text().splitlines(), attempt="-2")
    again = json.loads(pods.here.xsft("submit", file, "--json", "--set", SHORTER, "--again").stdout)
    assert (again["action"], again["jobset"]) == ("attempt", f"{NAME}-3")


def test_a_killed_run_is_tried_again_unchanged(pods: PlayedPods) -> None:
    file = workload(pods)
    first = pods.here.xsft("submit", file, "--yes")
    assert first.returncode == 0, first.stderr
    pods.dies(["I1123 03:41:48.543272 1 train.py:1] step 1"], code=137)
    assert json.loads(pods.here.xsft("submit", file, "--json").stdout)["jobset"] == f"{NAME}-2"
