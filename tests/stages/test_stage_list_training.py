from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.inprocess import xsft
from tests.localruns import WORKLOADS, FakeTrainer
from xsft.base.errors import TimedOut
from xsft.base.reporting import Reporter
from xsft.planning import api
from xsft.stages.stage_list import TrainHere
from xsft.stages.walk import WalkResult, WalkSettings, walk
from xsft.verbs.terminal import terminal

pytestmark = pytest.mark.loopback


def written(tmp_path: Path, **changes: Any) -> Path:
    workload = yaml.safe_load((WORKLOADS / "tiny_local.yaml").read_text()) | changes
    workload |= {"output": str(tmp_path / "out"), "name": "tiny"}
    workload["train"] |= {"steps": 6, "checkpoint_period": 2}
    file = tmp_path / "w.yaml"
    file.write_text(yaml.safe_dump(workload))
    return file


def training(tmp_path: Path, fake: FakeTrainer, **does: Any) -> TrainHere:
    return TrainHere(api.load(written(tmp_path)), run_name="tiny", listener=terminal(), machine=fake.machine(**does))


def walked(stage: TrainHere, *, left_s: float | None = None) -> WalkResult:
    return walk((stage,), WalkSettings(left_s=lambda: left_s))


@pytest.mark.early
def test_the_training_is_done_once(tmp_path: Path, fake: FakeTrainer) -> None:
    stage = training(tmp_path, fake)
    (first,) = walked(stage).reports
    assert (first.action, first.state, first.result) == ("created", "done", f"{tmp_path}/out/tiny/checkpoints/6")
    (fake.folder / "seen.json").unlink()
    (again,) = walked(stage).reports
    assert (again.action, again.why, again.result) == ("done", "its checkpoint of step 6 is saved", first.result)
    assert not (fake.folder / "seen.json").exists()


def test_a_failed_training_is_reported_and_the_next_call_makes_an_attempt(tmp_path: Path, fake: FakeTrainer) -> None:
    walk_result = walked(training(tmp_path, fake, data_ends=4))
    assert walk_result.failed is not None
    assert walk_result.failed.exit_status == 6
    assert "4 of 6 steps" in walk_result.failed.message
    stage = training(tmp_path, fake)
    assert stage.find().state == "failed"
    assert "attempt 1" in stage.find().why
    (again,) = walked(stage).reports
    assert (again.action, again.state) == ("attempt", "done")


def test_a_killed_attempt_is_torn_and_resumed(tmp_path: Path, fake: FakeTrainer) -> None:
    walked(training(tmp_path, fake, data_ends=4))
    record = tmp_path / "out" / "tiny" / "xsft" / "run.json"
    content = json.loads(record.read_text())
    content["attempts"][-1] |= {"outcome": "running", "reason": None, "finished_at": None, "exit_status": None}
    record.write_text(json.dumps(content))
    stage = training(tmp_path, fake)
    found = stage.find()
    assert (found.state, found.why) == (
        "torn",
        "attempt 1: xsft or the machine stopped; its checkpoint of step 4 is saved",
    )
    assert [report.action for report in walked(stage).reports] == ["attempt"]


def test_a_training_of_another_process_is_waited_for(tmp_path: Path, fake: FakeTrainer) -> None:
    stage = training(tmp_path, fake)
    lock = tmp_path / "out" / "tiny" / "xsft" / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert stage.find().state == "running"
        timed_out = walked(stage, left_s=0)
        assert isinstance(timed_out.failed, TimedOut)
        assert [(r.action, r.state) for r in timed_out.reports] == [("adopted", "running")]
        threading.Timer(0.1, lambda: fcntl.flock(held, fcntl.LOCK_UN)).start()
        assert [report.action for report in walked(stage).reports] == ["created"]


@pytest.mark.parametrize(("status", "size", "id"), [(4, 0, "evaluation-untrained"), (3, 2**42, "evaluation-memory")])
def test_weights_that_are_cut_off_or_too_large_are_not_evaluated(
    tmp_path: Path, fake: FakeTrainer, status: int, size: int, id: str
) -> None:
    judged = {"prompts": ["a"], "require": [{"prompt": 0, "matches": "b"}]}
    file = written(tmp_path, stages={"evaluate": judged})
    stage = TrainHere(api.load(file), run_name="tiny", listener=Reporter(), machine=fake.machine())
    assert walked(stage).failed is None
    weights = tmp_path / "out" / "tiny" / "checkpoints" / "6" / "model_params"
    weights.mkdir(parents=True, exist_ok=True)
    (weights / "_METADATA").touch()
    os.truncate(weights / "_METADATA", size)
    if not size:
        (weights / "_METADATA").unlink()
    done = xsft("run", str(file), "--from", "evaluate")
    assert done.returncode == status
    assert f"[{id}]" in done.stderr
    assert not list((tmp_path / "out").glob("tiny-evaluate/*/evaluation.json"))
