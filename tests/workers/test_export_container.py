"""The process of an export's container: nothing looks complete before it is verified and copied whole.

Real processes, with a bucket on loopback. The exporter, and the programs that run in MaxText's environment, are
stand-ins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.fakes.gcs import Bucket, serving
from tests.fakes.hfhub import TOKEN, Hub, serving_hub
from tests.hfmodels import write_safetensors
from tests.spec.test_export_inputs import INPUTS
from tests.stories import intent_of, spec_of
from tests.until import until
from xsft.base.amounts import moment
from xsft.launcher.cpujob import cpu_job_run, exported_argv
from xsft.records.document import read_facts
from xsft.records.record import AttemptFacts
from xsft.spec.export_inputs import ExportInputs
from xsft.weights.export_record import FILE, ExportPlan, ExportRecord, from_json

pytestmark = pytest.mark.contract
EXPORTER = """
import shutil, sys, time
source, folder, status = sys.argv[1:]
shutil.copytree(source, folder, dirs_exist_ok=True)
if status == "hang":
    print("hanging", flush=True)
    time.sleep(600)
sys.exit(int(status))
"""
WORKER = "import json, sys; json.dump({answer!r}, open(sys.argv[-1], 'w'))"
SAME = {"compared": 1, "wrong": [], "unread": [], "trained": 1, "changed": 1, "base": ""}
ANSWER = {"expected": {"w": [2, 3]}, "targets": 1, "all_targets": 1, "unexported": [], "folders": [SAME]}


class Pod:
    """A pod's process, and what it wrote to its destination."""

    def __init__(self, root: str, bucket: Bucket, scratch: Path) -> None:
        self.root, self.bucket, self.scratch = root, bucket, scratch
        self.python, self.token = sys.executable, scratch / "token"
        self.token.write_text(TOKEN)
        self.directory = f"{root}/tiny-export/{INPUTS.digest[:12]}"
        model = scratch / "model"
        model.mkdir()
        write_safetensors(model / "model.safetensors", {"w": np.zeros((2, 3), np.float32)})
        (model / "config.json").write_text("{}")

    def plan(self, inputs: ExportInputs = INPUTS) -> ExportPlan:
        folder = str(self.scratch / "out")
        exporter = (sys.executable, "-c", EXPORTER, str(self.scratch / "model"), folder)
        return ExportPlan(
            run_name="tiny-export",
            output=self.root,
            inputs=inputs,
            first=self.directory,
            directory=self.directory,
            folder=folder,
            argv=exporter,
            trainer_argv=(),
        )

    def start(self, *, status: object = 0, hub: Hub | None = None, **changes: Any) -> subprocess.Popen[str]:
        """`hub`: gets the files, instead of the directory."""
        plan = self.plan(replace(INPUTS, hub=hub.repo) if hub else INPUTS)
        run = cpu_job_run(intent_of(spec_of("gemma2_ultrachat")).run, run_name=plan.run_name, attempt=2)
        plan = replace(plan, argv=(*plan.argv, str(status)))
        spec = run.spec.model_copy(update={"output": self.root})
        python, *arguments = exported_argv(plan, run=replace(run, spec=spec, evaluation_program=None))
        document = json.loads(arguments[2])
        answer = {**ANSWER, "folders": [{**SAME, **changes}]}
        document["files"]["compare_export.py"] = WORKER.format(answer=answer)
        document["files"]["model_files.py"] = WORKER.format(answer={"ends": [], "config": ""})
        document["notes"]["attempt_stem"] = f"{self.root}/tiny-export/xsft/attempt-2"
        argv = (self.python, *arguments[:2], json.dumps(document), *arguments[3:])
        assert python == "python3"
        return self._started(argv, hub=hub)

    def _started(self, argv: tuple[str, ...], *, hub: Hub | None) -> subprocess.Popen[str]:
        env = {"STORAGE_EMULATOR_HOST": self.bucket.url, "PATH": os.environ["PATH"], "TMPDIR": str(self.scratch)}
        env |= {"HF_ENDPOINT": hub.url, "HF_TOKEN_PATH": str(self.token), "HF_HUB_DISABLE_XET": "1"} if hub else {}
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def run(self, **how: Any) -> tuple[int, str]:
        with self.start(**how) as process:
            output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def read(self, path: str) -> bytes | None:
        text = f"{self.root}/{path}"
        if text.startswith("gs://"):
            return self.bucket.objects.get(text.removeprefix("gs://my-bucket/"))
        return Path(text).read_bytes() if Path(text).is_file() else None

    @property
    def record(self) -> ExportRecord:
        export_record = from_json(self.read(f"{self.directory.removeprefix(self.root)[1:]}/{FILE}") or b"")
        assert export_record is not None
        return export_record

    def file(self, name: str) -> bytes | None:
        return self.read(f"{self.directory.removeprefix(self.root)[1:]}/{name}")

    def attempt(self, outcome: str) -> AttemptFacts | None:
        content = self.read(f"tiny-export/xsft/attempt-2.{outcome}.json")
        return read_facts(content) if content else None


@pytest.fixture(params=["bucket", "folder"])
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pod]:
    with serving(Bucket({})) as bucket:
        yield Pod("gs://my-bucket/runs" if request.param == "bucket" else str(tmp_path / "runs"), bucket, tmp_path)


@pytest.fixture
def in_bucket(tmp_path: Path) -> Iterator[Pod]:
    with serving(Bucket({})) as bucket:
        yield Pod("gs://my-bucket/runs", bucket, tmp_path)


def test_a_verified_model_is_copied_and_then_recorded_as_complete(pod: Pod) -> None:
    status, output = pod.run()
    assert status == 0, output
    record = pod.record
    assert (record.outcome, record.reason, record.digest) == ("completed", None, INPUTS.digest)
    assert record.files == {name: len(pod.file(name) or b"") for name in ("config.json", "model.safetensors")}
    assert record.verification is not None
    assert (record.verification.compared, record.verification.tensors, record.verification.passed) == (1, 1, True)
    attempt_facts = pod.attempt("completed")
    assert attempt_facts is not None
    ended, told_at = moment(record.finished_at), moment(attempt_facts.at)
    assert ended
    assert told_at
    assert timedelta(0) <= told_at - ended < timedelta(minutes=1)


def test_a_wrong_model_is_never_copied(in_bucket: Pod) -> None:
    status, output = in_bucket.run(wrong=[{"name": "w", "differing": 2, "values": 6}])
    assert (status, in_bucket.record.outcome) == (1, "failed")
    assert "1 tensors differ from the checkpoint: w (2 of 6 values)" in output
    assert in_bucket.file("model.safetensors") is None
    attempt_facts = in_bucket.attempt("failed")
    assert attempt_facts is not None
    assert attempt_facts.reason == in_bucket.record.reason


def test_an_exporter_that_fails_is_recorded_with_its_exit_status(in_bucket: Pod) -> None:
    assert in_bucket.run(status=3)[0] == 1
    assert in_bucket.record.reason == "MaxText's exporter ended with exit status 3"


def test_failed_copy_is_recorded_as_failed_and_refuses_a_second_writer(in_bucket: Pod) -> None:
    other = f"{in_bucket.directory.removeprefix('gs://my-bucket/')}/model.safetensors"
    in_bucket.bucket.objects[other] = b"of somebody"
    assert in_bucket.run()[0] == 1
    assert (in_bucket.record.outcome, in_bucket.bucket.objects[other]) == ("failed", b"of somebody")
    status, output = in_bucket.run()
    assert (status, in_bucket.record.outcome) == (4, "failed")
    assert "another process is writing" in output


def test_sigterm_ends_the_exporter_and_is_recorded(in_bucket: Pod) -> None:
    with in_bucket.start(status="hang") as process:
        until(lambda: "hanging" in str(process.stdout.readline() if process.stdout else ""))
        process.terminate()
        assert process.wait(timeout=300) == 1
    assert (in_bucket.record.outcome, in_bucket.record.reason) == ("interrupted", "stopped by SIGTERM")
    assert in_bucket.attempt("failed") is None


@pytest.mark.maxtext
def test_hub_gets_one_commit_in_an_empty_repository(tmp_path: Path, maxtext_python: Path) -> None:
    """By the huggingface_hub of MaxText's environment: written, found by a later start, never overwritten."""
    with serving(Bucket({})) as bucket, serving_hub(Hub()) as hub:
        pod = Pod(str(tmp_path / "runs"), bucket, tmp_path)
        pod.python = str(maxtext_python)
        status, said = pod.run(hub=hub)
        assert status == 0, said
        assert (hub.private, len(hub.commits), pod.file("model.safetensors")) == (True, 2, None)
        record = pod.record
        assert record.files == {name: len(hub.files[name]) for name in ("config.json", "model.safetensors")}
        assert (record.outcome, record.commit) == ("completed", f"{1:040x}")
        pod.directory += "-2"
        status, said = pod.run(hub=hub)
        assert status == 0, (said, hub.asked)
        assert (pod.record.outcome, len(hub.commits)) == ("completed", 2)
        hub.commits.append(("by hand", {**hub.files, "notes.txt": b"1"}))
        pod.directory += "-3"
        status, said = pod.run(hub=hub)
        assert (status, pod.record.outcome, len(hub.commits)) == (1, "failed", 3)
        assert "me/tiny already has files" in said
        pod.token.write_text("another")
        pod.directory += "-4"
        assert pod.run(hub=hub)[0] == 1
        assert "401" in str(pod.record.reason)
