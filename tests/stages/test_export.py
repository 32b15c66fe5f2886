"""An export on this machine: done once, found by its record and its files, however it ends. MaxText is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.checkpoints import small_files
from tests.exports import recorded, trainer_argv
from tests.hfmodels import SIZES, shapes, write_model
from tests.localruns import OPEN, local_plan
from tests.replacing import replace
from tests.until import until
from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.base.stage import StageFound
from xsft.launch.local_machine import Machine
from xsft.records.document import read_record, to_json
from xsft.records.record_files import RecordStore, record_store
from xsft.runs.local_runs import observe_local
from xsft.runs.rows import stage_of
from xsft.stages.export import ExportResult, ExportWork, intended_training, refuse_without_room
from xsft.stages.exported import plan_export, training_of
from xsft.stages.once import do_once, end_of_stage, find_job
from xsft.trainer.tokenizer_copy import TokenizerCopy, copying_words
from xsft.weights.export_record import ExportPlan
from xsft.weights.exporter import ExportRequest, TrainedRun

pytestmark = pytest.mark.loopback

FAKE = """\
import json, os, shutil, sys, time
home, parent = os.path.dirname(os.path.abspath(__file__)), os.getppid()
does = json.load(open(os.path.join(home, "does.json")))
step = sys.argv[3].rpartition(".")[2] if sys.argv[1] == "-I" else "exporter"
open(os.path.join(home, "steps"), "a").write(step + "\\n")
if step == "export_container":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)  # ended with xsft, as in a PID namespace
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
while os.path.exists(os.path.join(home, "hang-" + step)):
    time.sleep(0.01)
if os.getppid() != parent:
    sys.exit("the export was killed")
if step == "exporter":
    keys = dict(word.partition("=")[::2] for word in sys.argv[3:])
    shutil.copytree(os.path.join(home, "model"), keys["base_output_directory"], dirs_exist_ok=True)
    print("ValueError: no room" if does.get("exit") else "saved", flush=True)
    sys.exit(does.get("exit", 0))
json.dump(does.get(step, {"ends": [0], "config": ""}), open(sys.argv[-1], "w"))
"""
EXPECTED = {name: list(shape) for name, shape in shapes().items()}
SAME = {"compared": 310, "wrong": [], "unread": [], "trained": 310, "changed": 310, "base": ""}
CALL = """\
import sys
from pathlib import Path
from tests.stages.test_export import Lab
Lab(folder=Path(sys.argv[1])).export()
"""


class Lab(Struct, frozen=True, kw_only=True):
    """One training with a checkpoint of step 2; `does` is what the stand-ins do."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "XSFT_STATE_DIR": str(self.folder / "state"), "HOME": str(self.folder)}

    @property
    def store(self) -> RecordStore:
        return record_store(self.env)

    def does(self, *, exit: int = 0, **answer: Any) -> None:
        worker_answer = {**SAME, **answer}
        worker = {
            "expected": EXPECTED,
            "targets": 310,
            "all_targets": 310,
            "unexported": [],
            "folders": [worker_answer],
        }
        (self.folder / "does.json").write_text(json.dumps({"exit": exit, "compare_export": worker}))

    def save(self, step: int = 2) -> None:
        weights = self.folder / "tiny" / "checkpoints" / str(step) / "model_params"
        for name, content in small_files("qwen3-0.6b", given=SIZES).items():
            (weights / name).parent.mkdir(parents=True, exist_ok=True)
            (weights / name).write_bytes(content)
        (weights.parent / "_CHECKPOINT_METADATA").write_text("{}")

    def plan(self, export_request: ExportRequest | None = None) -> ExportPlan:
        return plan_export(training_of("tiny", self.store), export_request or ExportRequest(), self.store)

    def work(self) -> ExportWork:
        machine = Machine(python=self.folder / "python", env=self.env, cache=self.folder, contain=lambda: OPEN)
        return ExportWork(look=self.plan, machine=lambda: machine, say=lambda _line: None)

    def export(self) -> ExportResult:
        return do_once(self.work())

    def find(self) -> StageFound:
        return find_job(self.work())

    def steps(self) -> list[str]:
        file = self.folder / "steps"
        return file.read_text().split() if file.exists() else []

    @contextmanager
    def hanging(self, step: str) -> Iterator[subprocess.Popen[bytes]]:
        """Another process that exports, and stands still in a step."""
        (self.folder / f"hang-{step}").touch()
        root = Path(__file__).parents[2]
        argv = (sys.executable, "-c", CALL, str(self.folder))
        with subprocess.Popen(argv, env={**self.env, "PYTHONPATH": str(root)}, cwd=root) as process:
            try:
                until(lambda: step in self.steps())
                yield process
            finally:
                (self.folder / f"hang-{step}").unlink()
                process.kill()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return exporting(tmp_path)


def exporting(folder: Path) -> Lab:
    lab = Lab(folder=folder)
    model = write_model(folder / "model")
    (folder / "python").write_text(f"#!{sys.executable}\n{FAKE}")
    (folder / "python").chmod(0o755)
    recorded(lab.store, folder, "tiny", trainer_argv(folder, "tiny", model=str(model), base="/base/0/items"))
    lab.save()
    lab.does()
    return lab


def test_an_export_runs_once_and_is_found_again(lab: Lab) -> None:
    assert lab.find().state == "missing"
    done = lab.export()
    assert (done.action, done.end.outcome, done.end.reason) == ("created", "completed", None)
    assert done.end.result == lab.plan().first == str(lab.folder / "tiny-export" / lab.plan().digest[:12])
    assert lab.steps() == ["export_container", "exporter", "model_files", "compare_export"]
    again = lab.export()
    assert (again.action, again.end.result) == ("finished", done.end.result)
    assert len(lab.steps()) == 4
    assert (lab.find().state, lab.find().result) == ("done", done.end.result)
    record = read_record((lab.folder / "tiny-export" / "xsft" / "run.json").read_bytes())
    assert (record.run_name, record.last.outcome, record.target) == ("tiny-export", "completed", "local")
    entries = [entry for entry in lab.store.local_index().entries if entry.run_name == "tiny-export"]
    (observation,) = observe_local(entries, now="2026-11-23T00:00:00Z")
    assert stage_of(observation) == "export"


def test_a_later_checkpoint_gets_its_own_export(lab: Lab) -> None:
    first = lab.export()
    lab.save(4)
    second = lab.export()
    assert second.plan.inputs.step == 4
    assert second.end.result != first.end.result
    assert lab.plan(ExportRequest(step=2)).whole == first.end.result
    with pytest.raises(UsageError, match="no checkpoint of step 3"):
        lab.plan(ExportRequest(step=3))


@pytest.mark.contract
@pytest.mark.parametrize("step", ["exporter", "model_files", "compare_export"])
def test_an_export_killed_in_any_step_is_kept_and_the_next_uses_another_path(lab: Lab, step: str) -> None:
    with lab.hanging(step) as process:
        assert lab.find().state == "running"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert lab.find().state == "torn"
    first = Path(lab.plan().first)
    times_before = {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.suffix != ".log"}
    done = end_of_stage(lab.export(), "")
    assert (done.action, done.state, done.result) == ("attempt", "done", f"{first}-2")
    assert times_before.items() <= {path: path.stat().st_mtime_ns for path in first.rglob("*")}.items()
    record = read_record((lab.folder / "tiny-export" / "xsft" / "run.json").read_bytes())
    assert [attempt.outcome for attempt in record.attempts] == ["failed", "completed"]


def test_an_export_killed_before_its_run_record_ends_is_found_complete(lab: Lab) -> None:
    done = lab.export()
    file = lab.folder / "tiny-export" / "xsft" / "run.json"
    file.write_text(file.read_text().replace('"completed"', '"running"'))
    again = lab.export()
    assert (again.action, again.end.result) == ("finished", done.end.result)
    assert read_record(file.read_bytes()).last.outcome == "completed"


@pytest.mark.contract
def test_two_concurrent_callers_export_once(lab: Lab) -> None:
    with lab.hanging("exporter") as process:
        (lab.folder / "hang-exporter").rename(lab.folder / "hung")
        done = lab.export()
        (lab.folder / "hung").rename(lab.folder / "hang-exporter")
        assert process.wait() == 0
    assert (done.action, done.end.outcome) == ("finished", "completed")
    assert lab.steps().count("exporter") == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"wrong": [{"name": "w", "differing": 1, "values": 4}]}, "1 tensors differ from the checkpoint: w"),
        ({"changed": 0}, "every tensor equals the initial model"),
    ],
)
def test_an_export_whose_verification_fails_is_not_complete(lab: Lab, answer: dict[str, Any], message: str) -> None:
    lab.does(**answer)
    done = lab.export()
    assert (done.end.outcome, done.end.result) == ("failed", None)
    assert message in str(done.end.reason)
    stage_found = lab.find()
    assert stage_found.state == "failed"
    assert message in stage_found.why
    lab.does()
    assert lab.export().end.result == f"{lab.plan().first}-2"


@pytest.mark.early
def test_a_failed_exporter_reports_its_error(lab: Lab) -> None:
    lab.does(exit=1)
    done = lab.export()
    assert (done.end.outcome, done.end.reason) == ("failed", "ValueError: no room")


def test_an_export_with_a_truncated_file_is_incomplete(lab: Lab) -> None:
    done = lab.export()
    weights = Path(str(done.end.result)) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert lab.plan().whole is None
    assert lab.export().end.result == f"{done.end.result}-2"


def test_a_run_with_the_name_of_the_export_is_not_overwritten(lab: Lab) -> None:
    recorded(lab.store, lab.folder, "tiny-export", trainer_argv(lab.folder, "tiny-export", model="/m", base=None))
    with pytest.raises(Refused) as raised:
        lab.export()
    assert raised.value.problem_id == "stage-name-taken"


@pytest.mark.parametrize("name", ["nobody", "tiny-export"])
def test_training_of_refuses_a_run_that_is_no_training(lab: Lab, name: str) -> None:
    lab.export()
    with pytest.raises(UsageError):
        training_of(name, lab.store)


def test_an_export_without_enough_memory_does_not_start(lab: Lab) -> None:
    with pytest.raises(EnvironmentMissing) as raised:
        refuse_without_room(replace(lab.plan(), weights_bytes=2**60))
    assert raised.value.problem_id == "export-memory"


def test_an_export_has_the_tokenizer_that_the_training_read_whatever_the_hub_has_now(lab: Lab) -> None:
    def training_at(revision: str | None) -> TrainedRun:
        trained = training_of("tiny", lab.store)
        copy = TokenizerCopy(tokenizer=str(lab.folder / "model"), revision=revision)
        return replace(trained, argv=("python3", *copying_words(copy, folder="/copy"), *trained.argv[1:]))

    lab.export()
    for now in ("a" * 40, "b" * 40, None):
        plan = plan_export(training_at(now), ExportRequest(), lab.store)
        assert (plan.whole, plan.inputs.tokenizer_revision) == (plan.directory, None)
    file = lab.folder / "tiny" / "xsft" / "run.json"
    record = read_record(file.read_bytes())
    pinned = replace(record.last, argv=training_at("a" * 40).argv)
    file.write_text(to_json(replace(record, attempts=(pinned,))))
    plan = plan_export(training_at("b" * 40), ExportRequest(), lab.store)
    assert (plan.whole, plan.inputs.tokenizer_revision) == (None, "a" * 40)


@pytest.mark.early
def test_a_training_that_has_not_begun_has_the_names_of_its_plan(tmp_path: Path) -> None:
    plan = local_plan(tmp_path / "out/")
    trained = intended_training(plan)
    assert (trained.run_name, trained.spec_digest) == (plan.run_name, plan.spec_digest)
    assert trained.output == str(tmp_path / "out")
