"""Nights of docs/examples/nightly.yaml on a real control plane: its own shell, one red and one green.

The pods log what runs of this machine logged (maxtext@0.2.5), and end with the exit statuses of those runs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.commandline import XSFT
from tests.control_plane.api import Cluster
from tests.control_plane.played import EVALUATE, PlayedPods, playing
from tests.stories import ROOT
from xsft.environments.installed import BuiltEnvironment
from xsft.spec.loader import load_yaml

pytestmark = pytest.mark.cluster
NIGHTLY = ROOT / "docs" / "examples" / "nightly.yaml"
NAME = "qwen3-gsm8k-20261121"


@dataclass
class Nights:
    pods: PlayedPods
    file: Path

    def start(self) -> subprocess.Popen[bytes]:
        (step,) = (s for s in load_yaml(NIGHTLY.read_text())["jobs"]["run"]["steps"] if s.get("name") == "Run")
        here = self.pods.here
        env = {**here.env, "WORKLOAD": str(self.file), "ASKED": NAME, "MINUTES": "7"}
        argv = ("bash", "-eo", "pipefail", "-c", step["run"])
        return subprocess.Popen(argv, env=env, cwd=here.folder)

    def deadline_of(self, jobset: str) -> int:
        """Seconds after which Kubernetes ends the pods of its only Job."""
        query = f"labelSelector=jobset.sigs.k8s.io/jobset-name={jobset}"
        namespace = self.pods.here.api.namespace
        found = self.pods.cluster.api("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs?{query}")
        (job,) = found["items"]
        return int(job["spec"]["activeDeadlineSeconds"])

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.pods.here.folder / "run.json").read_text())
        return found


@pytest.fixture
def nights(real_cluster: Cluster, tmp_path: Path, xpk_environment: BuiltEnvironment) -> Iterator[Nights]:
    with playing(real_cluster, tmp_path, name=NAME, xpk=xpk_environment) as pods:
        xsft = pods.here.folder / ".venv" / "bin" / "xsft"
        xsft.parent.mkdir(parents=True)
        xsft.symlink_to(XSFT)
        yield Nights(pods, pods.workload(evaluate=EVALUATE))


def test_a_night_exits_6_after_a_failed_training_and_the_next_call_finishes_it(nights: Nights) -> None:
    with nights.start() as night:
        nights.pods.converts()
        nights.pods.trains(log="failed", code=1)
        assert night.wait(timeout=500) == 6
    assert [(one["action"], one["state"]) for one in nights.document["stages"]] == [
        ("created", "done"),
        ("created", "failed"),
        ("waiting", None),
    ]
    with nights.start() as night:
        nights.pods.trains(attempt="-2")
        nights.pods.evaluates(says="1 plus 1 is 2.")
        assert night.wait(timeout=500) == 0
    assert nights.deadline_of(f"{NAME}-evaluate") == 1800
    stages = nights.document["stages"]
    assert [(one["action"], one["state"]) for one in stages] == [
        ("done", "done"),
        ("attempt", "done"),
        ("created", "done"),
    ]
    assert stages[-1]["verdict"] == "passed"
