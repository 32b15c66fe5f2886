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
import yaml

from tests.checkpoints import small_files
from tests.cluster.api import Cluster
from tests.contract.commandline import XSFT, Machine, machine
from tests.fakes.clusters import reaching
from tests.slicejobs import measured_by_pod
from tests.stories import ROOT
from xsft.effects.environments.installed import BuiltEnvironment
from xsft.launchers.labels import WRITES_ANNOTATION

pytestmark = pytest.mark.cluster
NIGHTLY = ROOT / "docs" / "examples" / "nightly.yaml"
NAME = "qwen3-gsm8k-20261121"
STEPS = 60
EVALUATE = {"prompts": ["What is 1 plus 1?"], "require": [{"prompt": 0, "matches": "is 2"}], "limit_s": 1800}

LOGS = ROOT / "tests" / "data" / "nights"


@dataclass
class Nights:
    here: Machine
    cluster: Cluster
    file: Path

    def start(self) -> subprocess.Popen[bytes]:
        (step,) = (s for s in yaml.safe_load(NIGHTLY.read_text())["jobs"]["run"]["steps"] if s.get("name") == "Run")
        env = {**self.here.env, "WORKLOAD": str(self.file), "ASKED": NAME, "MINUTES": "7"}
        argv = ("bash", "-eo", "pipefail", "-c", step["run"])
        return subprocess.Popen(argv, env=env, cwd=self.here.folder)

    def ran(self, jobset: str, *, pods: int, log: str, code: int, **writes: bytes) -> None:
        """The JobSet's pods run, log, write to the bucket and end."""
        selector = f"jobset.sigs.k8s.io/jobset-name={jobset}"
        self.cluster.wait_pods(self.here.api.namespace, selector, count=pods, until_s=300)
        if log:
            lines = (LOGS / f"{log}.txt").read_text().splitlines()
            self.cluster.write_logs(self.here.api.namespace, selector, lines)
        self.here.bucket.objects |= writes
        self.cluster.end(self.here.api.namespace, selector, code=code)

    def writes(self, jobset: str) -> str:
        """The path of its result, in the bucket."""
        held = self.here.api.world.jobsets()[jobset]
        return str(held["metadata"]["annotations"][WRITES_ANNOTATION]).removeprefix("gs://my-bucket/")

    def converted(self) -> None:
        selector = f"jobset.sigs.k8s.io/jobset-name={NAME}-convert"
        self.cluster.wait_pods(self.here.api.namespace, selector, count=1, until_s=300)
        folder = self.writes(f"{NAME}-convert")
        files = {f"{folder}/{name}": content for name, content in small_files("qwen3-0.6b").items()}
        self.ran(f"{NAME}-convert", pods=1, log="", code=0, **files)

    def evaluated(self, *, says: str) -> None:
        jobset = f"{NAME}-evaluate"
        self.cluster.wait_pods(
            self.here.api.namespace, f"jobset.sigs.k8s.io/jobset-name={jobset}", count=2, until_s=300
        )
        held = self.here.api.world.jobsets()[jobset]
        self.ran(jobset, pods=2, log="evaluated", code=0, **{self.writes(jobset): measured_by_pod(held, says=says)})

    def deadline_of(self, jobset: str) -> int:
        """Seconds after which Kubernetes ends the pods of its only Job."""
        query = f"labelSelector=jobset.sigs.k8s.io/jobset-name={jobset}"
        found = self.cluster.api("GET", f"/apis/batch/v1/namespaces/{self.here.api.namespace}/jobs?{query}")
        (job,) = found["items"]
        return int(job["spec"]["activeDeadlineSeconds"])

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.here.folder / "run.json").read_text())
        return found


@pytest.fixture
def nights(real_cluster: Cluster, tmp_path: Path, xpk_environment: BuiltEnvironment) -> Iterator[Nights]:
    with (
        reaching(real_cluster, tmp_path, gated=False) as api,
        machine(tmp_path, environments=xpk_environment.folder.parent, api=api) as here,
    ):
        here.env["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nothing listens there
        tpu = {"type": "v6e-8", "num_slices": 1}
        train = {"steps": STEPS, "per_device_batch_size": 1, "max_target_length": 64, "checkpoint_period": STEPS}
        file = here.workload("qwen3_gsm8k", tpu=tpu, train=train, stages={"evaluate": EVALUATE})
        xsft = here.folder / ".venv" / "bin" / "xsft"
        xsft.parent.mkdir(parents=True)
        xsft.symlink_to(XSFT)
        yield Nights(here, real_cluster, file)


def test_a_night_is_red_when_its_training_fails_and_the_next_call_goes_on_to_the_verdict(nights: Nights) -> None:
    with nights.start() as night:
        nights.converted()
        nights.ran(NAME, pods=2, log="failed", code=1)
        assert night.wait(timeout=200) == 6
    assert [(one["action"], one["state"]) for one in nights.document["stages"]] == [
        ("created", "done"),
        ("created", "failed"),
        ("waiting", None),
    ]
    with nights.start() as night:
        saved = {f"runs/{NAME}/checkpoints/{STEPS}/commit_success.txt": b""}
        nights.ran(f"{NAME}-2", pods=2, log="trained", code=0, **saved)
        nights.evaluated(says="1 plus 1 is 2.")
        assert night.wait(timeout=200) == 0
    assert nights.deadline_of(f"{NAME}-evaluate") == 1800
    stages = nights.document["stages"]
    assert [(one["action"], one["state"]) for one in stages] == [
        ("done", "done"),
        ("attempt", "done"),
        ("created", "done"),
    ]
    assert stages[-1]["verdict"] == "passed"
