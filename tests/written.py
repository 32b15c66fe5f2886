"""What xsft@72095b31 wrote, and what it answered when it read it. Today's xsft must answer the same.

tests/fixtures/v72095b31/ was written at that commit, by tests/tools/write_fixtures.py (in the history until 69fc074a):

    cluster/      a user's machine: workloads, state folder, the bucket's objects, what the cluster holds
    local/        the whole chain of tests/wholepipeline.py on one machine; its weights, as zeros, are beside it
    project/      a project with the lock of a pushed image
    fit.json      a verdict of the TPU compiler
    answers.json  the answer to each question below

Times in the tree end at WRITTEN_AT. They are moved to now when it is copied, and back in answers.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.contract.commandline import Machine, machine
from tests.everything import OTHER, everything, other
from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import ADMITTED, QUEUED, RUNNING, WAITING, Runs
from tests.hfmodels import write_model
from tests.inprocess import xsft
from tests.stories import NAMES, intent_of, spec_of
from tests.wholepipeline import SERVED
from xsft.evaluation.trainer_plan import evaluation_plan
from xsft.fit.trainer_step import step_to_compile
from xsft.launcher.server_manifest import plan_of_server
from xsft.planning.api import intend, load_each
from xsft.spec.model import WorkloadSpec
from xsft.spec.sections import Pods

TREE = Path(__file__).parent / "fixtures" / "v72095b31"
WRITTEN_AT = datetime(2026, 11, 21, 10, 10, tzinfo=UTC)
"""Ten minutes after the stand-in creates its objects."""
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")
STEP = "completed step: {n}, seconds: 4.5, TFLOP/s/device: 459.0, total_weights: 84, loss: 2.5, lm_loss: 0.000"
LEFT_OUT = frozenset({"age_s", "evidence_age_s", "eta_s", "why", "argv", "job", "estimate"})
"""Keys of answers that depend on the moment, are sentences, or are planned and not read."""

LOCAL = {
    "status": ("status", "--all"),
    "run": ("run", "w.yaml"),
    "submit": ("submit", "w.yaml"),
    "convert": ("checkpoint", "convert", "w.yaml"),
    "export": ("checkpoint", "export", "w.yaml"),
}
"""Questions about local/; each finds what is done and starts nothing."""
CLUSTER = {
    "run": ("run", "gemma2_ultrachat.yaml", "--no-wait", "--yes"),
    "run-retried": ("run", "qwen3_gsm8k.yaml", "--no-wait", "--yes"),
    "convert": ("checkpoint", "convert", "gemma2_ultrachat.yaml", "--yes"),
    "export": ("checkpoint", "export", "gemma2_ultrachat.yaml", "--yes"),
    "export-float32": ("checkpoint", "export", "gemma2_ultrachat.yaml", "--dtype", "float32", "--dry-run"),
    "submit-finished": ("submit", "deepseek_ultrachat.yaml", "--yes"),
    "submit-live": ("submit", "deepseek_ultrachat_mcjax.yaml", "--yes"),
    "submit-queued": ("submit", "queued.yaml", "--yes"),
    "submit-cancelled": ("submit", "cancelled.yaml", "--yes"),
    "submit-deleted": ("submit", "deleted.yaml", "--yes"),
    "submit-changed": ("submit", "queued.yaml", "--set", "train.learning_rate=0.1", "--yes"),
}
"""Questions about cluster/ for which the real xpk renders. Those of the cancelled and the deleted run create an
attempt."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A copy of a part of the tree, and the environment in which it is read."""

    folder: Path
    env: Mapping[str, str]
    by: timedelta
    """By how much its times were moved, in whole seconds."""

    def ask(self, *question: str) -> Any:
        """Return the answer without LEFT_OUT, its times moved back; times since the copy was made are left out."""
        with patch.dict(os.environ, self.env, clear=True), chdir(self.folder):
            done = xsft(*question, "--json")
        return self._normal(json.loads(done.stdout.replace(str(self.folder), "FOLDER")))

    def rows(self) -> Any:
        """Return the rows of the cluster's runs. A busy machine may not read all in the time that `status` gives."""
        question = ("status", "--all", "--context", "stand-in")
        attempts = (self.ask(*question) for _ in range(5))
        return next((answer for answer in attempts if "not read in time" not in str(answer)), None)

    def take(self, source: Path) -> None:
        """Copy a folder of texts."""
        for file in (path for path in source.rglob("*") if path.is_file()):
            copy = self.folder / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(moved(file.read_text(encoding="utf-8"), by=self.by), encoding="utf-8")

    def _normal(self, document: Any) -> Any:
        match document:
            case {"problems": problems, **others}:
                errors = [problem["id"] for problem in problems if problem["severity"] == "error"]
                return {**self._normal(others), "errors": errors}
            case {"action": "attempt", "uid": _, **others}:
                return {**self._normal(others), "action": "attempt"}
            case dict():
                return {key: self._normal(value) for key, value in document.items() if key not in LEFT_OUT}
            case list():
                return [self._normal(value) for value in document]
            case str():
                back = moved(document, by=-self.by)
                return TIME.sub(lambda time: time[0] if time[0] < WRITTEN_AT.isoformat()[:19] else "NOW", back)
            case _:
                return document


def local_copy(folder: Path) -> Copy:
    """Return a copy of local/, which is read in its folder: what was written there is at /proc/self/cwd/out."""
    environment = {
        "XSFT_STATE_DIR": str(folder / "state"),
        "XSFT_CACHE_DIR": str(folder / "cache"),
        "HOME": str(folder),
    }
    copy = Copy(folder=folder, env={**os.environ, **environment}, by=since_written())
    copy.take(TREE / "local")
    with tarfile.open(TREE / "local-weights.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    write_model(folder / "model", config=SERVED)
    (folder / "cache").mkdir()
    (folder / "cache" / "envs").touch()  # no environment can be built: what is not found to be done fails at once
    return copy


@contextmanager
def cluster_copy(folder: Path, *, environments: Path) -> Iterator[Copy]:
    """A machine whose folder, bucket and cluster hold what cluster/ does."""
    with empty_machine(folder, environments=environments) as here:
        copy = Copy(folder=folder, env=here.env, by=since_written())
        copy.take(TREE / "cluster" / "machine")
        for name, text in read_tree("cluster/bucket.json").items():
            here.bucket.objects[name] = moved(text, by=copy.by).encode()
        objects = here.api.standin.objects
        for kind, stored in read_tree("cluster/objects.json").items():
            objects.of(kind).update(
                {("default", kube_object["metadata"]["name"]): kube_object for kube_object in stored}
            )
        play_controllers(here.api, by=copy.by)
        yield copy


@contextmanager
def empty_machine(folder: Path, *, environments: Path) -> Iterator[Machine]:
    """A machine that reaches a stand-in cluster, and no hub."""
    with standing_in(folder) as api, machine(folder, environments=environments, api=api) as here:
        here.env["HF_ENDPOINT"] = "http://127.0.0.1:9"
        api.connect().create_secret(name="hf-token", namespace="default", data={"token": b"x"})
        yield here


def play_controllers(api: ClusterApi, *, by: timedelta) -> None:
    """Add what JobSet, Kueue and the pods of a training and of a queued run do, and move the cluster's times."""
    objects, jobsets = api.standin.objects, api.world.jobsets()
    training, queued, runs = jobsets["deepseek-ultrachat-mcjax"], jobsets["queued"], Runs(objects)
    training["spec"]["suspend"] = False
    training["status"], queued["status"] = RUNNING, QUEUED
    runs.workload(training, conditions=ADMITTED)
    runs.position(runs.workload(queued, conditions=WAITING), 3)
    for number in range(128):
        pod = runs.pod("deepseek-ultrachat-mcjax", index=number // 64, host=number % 64)["metadata"]["name"]
        api.standin.logs.say(pod, *(STEP.format(n=n) for n in range(1, 30)), second=590)
    for kind in objects.stored:
        content = [[*key, kube_object] for key, kube_object in objects.of(kind).items()]
        text = moved(json.dumps(content), by=by)
        objects.stored[kind] = {(namespace, name): kube_object for namespace, name, kube_object in json.loads(text)}
    for log in api.standin.logs.logs.values():
        log.lines = [(moved(time, by=by), text) for time, text in log.lines]


def digests_of(spec: WorkloadSpec) -> dict[str, str]:
    """Return what a run is recognised by, and the inputs of its stages."""
    intent = intent_of(spec)
    digests: dict[str, str] = {"run": intent.spec_digest}
    if intent.conversion:
        digests |= {"conversion": intent.conversion.digest, "converted": intent.conversion.directory}
    if spec.on_cluster:
        digests["evaluation"] = evaluation_plan(intent.run, digest=intent.spec_digest).result
    if step := step_to_compile(intent.run):
        digests["fit"] = step.family
    if spec.stages.serve and (server := plan_of_server(intent.run, weights="gs://my-bucket/weights")):
        digests["server"] = server.digest
    return digests


def workloads() -> dict[str, WorkloadSpec]:
    """Return the shipped workloads, and one with each key set to another value."""
    shipped = {name: spec_of(name) for name in NAMES}
    specs = {"everything": everything()} | {f"everything {path}": other(path) for path in OTHER if path != "target"}
    return shipped | {name: _without_later_keys(spec) for name, spec in specs.items()}


def _without_later_keys(spec: WorkloadSpec) -> WorkloadSpec:
    """Return the workload without the keys that came after 72095b31, which no file of that time gives."""
    secrets = spec.secrets.model_copy(update={"env": {}})
    model = spec.model.model_copy(update={"tokenizer_revision": None})
    return spec.model_copy(update={"secrets": secrets, "pods": Pods(), "model": model})


def image_of_project() -> str:
    """Return the image that a workload of project/ runs, by the lock."""
    loaded, _ = load_each((TREE / "project" / "w.yaml",), offline=True)
    (intent,) = intend(loaded)
    return str(intent.run.spec.image.ref)


def known_fields(answer: Any, expected: Any) -> Any:
    """Return the answer without what the expected one has not: a document may get fields, and null may become known."""
    if expected is None:
        return None
    if isinstance(answer, dict) and isinstance(expected, dict):
        return {key: known_fields(value, expected[key]) for key, value in answer.items() if key in expected}
    if isinstance(answer, list) and isinstance(expected, list) and len(answer) == len(expected):
        return [known_fields(*pair) for pair in zip(answer, expected, strict=True)]
    return answer


def silence(copy: Copy) -> None:
    """The cluster's server is gone: nothing listens on its port."""
    config = copy.folder / "kubeconfig.yaml"
    config.write_text(re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:9", config.read_text()))


def read_tree(name: str) -> Any:
    return json.loads((TREE / name).read_text(encoding="utf-8"))


def since_written() -> timedelta:
    """Return how long ago the tree was written, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0) - WRITTEN_AT


def moved(text: str, *, by: timedelta) -> str:
    """Return the text with all its times moved."""
    return TIME.sub(lambda time: (datetime.fromisoformat(f"{time[0]}+00:00") + by).isoformat()[:19], text)
