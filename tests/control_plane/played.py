"""Plays the pods of a workload's stages on a real control plane: they run, log, write to the bucket and end.

The log lines and exit statuses are those of runs of this machine (maxtext@0.2.5, tests/fixtures/nights).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.checkpoints import small_files
from tests.contract.commandline import Machine, machine
from tests.control_plane.api import Cluster
from tests.fakes.clusters import reaching
from tests.slicejobs import measured_by_pod
from tests.stories import ROOT
from xsft.base.stage import to_json
from xsft.environments.installed import BuiltEnvironment
from xsft.records.jobset_paths import DIGEST_ANNOTATION, WRITES_ANNOTATION
from xsft.weights.export_record import FILE, ExportRecord, Verification

STEPS = 60
EVALUATE = {"prompts": ["What is 1 plus 1?"], "require": [{"prompt": 0, "matches": "is 2"}], "limit_s": 1800}
LOGS = ROOT / "tests" / "fixtures" / "nights"
BUCKET = "gs://my-bucket/"
VERIFIED = Verification(tensors=1, compared=1, trained=1, changed=1)


@dataclass
class PlayedPods:
    """`name`: of the training. Its model is qwen3-0.6b, its slice v6e-8."""

    here: Machine
    cluster: Cluster
    name: str

    def workload(self, **stages: Any) -> Path:
        tpu = {"type": "v6e-8", "num_slices": 1}
        train = {"steps": STEPS, "per_device_batch_size": 1, "max_target_length": 64, "checkpoint_period": STEPS}
        return self.here.workload("qwen3_gsm8k", tpu=tpu, train=train, stages=stages)

    def converts(self) -> None:
        jobset = f"{self.name}-convert"
        self._wait(jobset, pods=1)
        folder = self._writes(jobset)
        self._ends(jobset, writes={f"{folder}/{name}": content for name, content in small_files("qwen3-0.6b").items()})

    def trains(self, *, attempt: str = "", log: str = "trained", code: int = 0) -> None:
        jobset = f"{self.name}{attempt}"
        self._wait(jobset, pods=2)
        saved = f"runs/{self.name}/checkpoints/{STEPS}"
        weights = {f"{saved}/model_params/{name}": content for name, content in small_files("qwen3-0.6b").items()}
        writes = {} if code else {f"{saved}/commit_success.txt": b"", **weights}
        self._ends(jobset, log=log, code=code, writes=writes)

    def dies(self, lines: Sequence[str], *, attempt: str = "", code: int = 1) -> None:
        """The training prints these lines and ends, before it saves anything."""
        jobset = f"{self.name}{attempt}"
        self._wait(jobset, pods=2)
        self.cluster.write_logs(self.here.api.namespace, _pods(jobset), lines)
        self.cluster.end(self.here.api.namespace, _pods(jobset), code=code)
        self.cluster.wait(
            lambda: self.here.api.world.jobsets()[jobset].get("status", {}).get("terminalState"), what=f"{jobset} ends"
        )

    def evaluates(self, *, says: str) -> None:
        jobset = f"{self.name}-evaluate"
        self._wait(jobset, pods=2)
        measured = measured_by_pod(self.here.api.world.jobsets()[jobset], says=says)
        self._ends(jobset, log="evaluated", writes={self._writes(jobset): measured})

    def exports(self) -> str:
        """Return the folder."""
        jobset = f"{self.name}-export"
        self._wait(jobset, pods=1)
        folder, digest = self._writes(jobset), self._annotations(jobset)[DIGEST_ANNOTATION]
        record = ExportRecord(
            digest=digest,
            run_name=jobset,
            outcome="completed",
            files={"model.safetensors": 3},
            verification=VERIFIED,
        )
        self._ends(jobset, writes={f"{folder}/model.safetensors": b"123", f"{folder}/{FILE}": to_json(record).encode()})
        return f"{BUCKET}{folder}"

    def _wait(self, jobset: str, *, pods: int) -> None:
        self.cluster.wait_pods(self.here.api.namespace, _pods(jobset), count=pods, until_s=300)

    def _ends(self, jobset: str, *, log: str = "", code: int = 0, writes: Mapping[str, bytes] | None = None) -> None:
        if log:
            lines = (LOGS / f"{log}.txt").read_text().splitlines()
            self.cluster.write_logs(self.here.api.namespace, _pods(jobset), lines)
        self.here.bucket.objects.update(writes or {})
        self.cluster.end(self.here.api.namespace, _pods(jobset), code=code)

    def _writes(self, jobset: str) -> str:
        """The path of its result, in the bucket."""
        return str(self._annotations(jobset)[WRITES_ANNOTATION]).removeprefix(BUCKET)

    def _annotations(self, jobset: str) -> dict[str, str]:
        return dict(self.here.api.world.jobsets()[jobset]["metadata"]["annotations"])


def _pods(jobset: str) -> str:
    return f"jobset.sigs.k8s.io/jobset-name={jobset}"


@contextmanager
def playing(cluster: Cluster, folder: Path, *, name: str, xpk: BuiltEnvironment) -> Iterator[PlayedPods]:
    with (
        reaching(cluster, folder, gated=False) as api,
        machine(folder, environments=xpk.folder.parent, api=api) as here,
    ):
        here.env["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nothing listens there
        yield PlayedPods(here, cluster, name)
