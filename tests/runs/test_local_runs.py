"""Runs of this machine, read from their folders; the trainer is the stand-in that prints what MaxText prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.localruns import FakeTrainer, local_plan
from xsft.cluster.observation import Observation
from xsft.launch.local_folder import run_folder_of
from xsft.launch.local_run import run_local
from xsft.machine.filelock import exclusive, is_held
from xsft.planning.steps import Plan
from xsft.records.index import IndexEntry
from xsft.runs.classify import classify
from xsft.runs.local_runs import observe_local

NOW = "2026-11-21T12:00:00Z"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return local_plan(tmp_path)


def entry(plan: Plan) -> IndexEntry:
    return IndexEntry(run_name=plan.run_name, target="local", output=plan.run.output or "", steps=6)


def seen(plan: Plan) -> Observation:
    (observation,) = observe_local([entry(plan)], now=NOW)
    return observation


def ran(plan: Plan, tmp_path: Path, **does: object) -> None:
    run_local(plan, machine=FakeTrainer(folder=tmp_path).machine(**does), on_event=lambda _: None)


def test_a_run_with_all_steps_has_succeeded(plan: Plan, tmp_path: Path) -> None:
    ran(plan, tmp_path)
    observation = seen(plan)
    status = classify(observation)
    assert (status.state, observation.target, observation.cluster, observation.jobset) == (
        "succeeded",
        "local",
        None,
        None,
    )
    assert observation.progress is not None
    steps = plan.run.spec.train.steps
    assert (observation.progress.step, observation.steps, observation.progress.saved_step) == (steps, steps, steps)
    assert observation.progress.loss == pytest.approx(7 - steps / 10)
    assert observation.progress.step_seconds == 0.217
    assert observation.record is not None
    assert (observation.record.outcome, observation.record.alive) == ("completed", False)


def test_a_run_whose_data_ended_has_failed(plan: Plan, tmp_path: Path) -> None:
    ran(plan, tmp_path, data_ends=2)
    observation = seen(plan)
    status = classify(observation)
    assert (status.state, status.reason) == ("failed", "data-ended")


def test_a_running_run_holds_its_lock_and_a_killed_one_does_not(plan: Plan, tmp_path: Path) -> None:
    ran(plan, tmp_path, exit=1)
    folder = run_folder_of(plan)
    document = json.loads(folder.record.read_text())
    document["attempts"][-1] |= {"outcome": "running", "finished_at": None, "reason": None}
    document["outcome"] = "running"
    folder.record.write_text(json.dumps(document))
    with exclusive(folder.lock, waiting=lambda: None):
        observation = seen(plan)
        assert observation.record is not None
        assert observation.record.alive
        assert classify(observation).state in {"starting", "compiling", "training"}
    dead = seen(plan)
    assert dead.record is not None
    assert not dead.record.alive
    assert classify(dead).reason == "killed"


def test_a_run_that_ends_between_reading_record_and_lock_is_not_killed(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(plan, tmp_path)
    record = run_folder_of(plan).record
    ended = record.read_text()
    record.write_text(ended.replace('"completed"', '"running"'))
    monkeypatch.setattr("xsft.runs.local_runs.is_held", lambda _: not record.write_text(ended))
    observation = seen(plan)
    assert observation.record is not None
    assert observation.record.outcome == "completed"


def test_is_held_works_without_the_kernels_lock_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no such list."""
    monkeypatch.setattr("xsft.machine.filelock.holder", lambda _: None)
    lock = tmp_path / "lock"
    assert not is_held(lock)
    with exclusive(lock, waiting=lambda: None):
        assert is_held(lock)
    assert not is_held(lock)


def test_an_unreadable_record_is_unread_and_unknown(plan: Plan, tmp_path: Path) -> None:
    ran(plan, tmp_path)
    run_folder_of(plan).record.write_text("{")
    observation = seen(plan)
    assert [unread.what for unread in observation.unread] == ["record"]
    assert classify(observation).state == "unknown"


def test_an_index_entry_without_a_local_folder_gives_no_run(plan: Plan, tmp_path: Path) -> None:
    assert observe_local([entry(plan)], now=NOW) == ()
    on_a_cluster = IndexEntry(run_name="r", target="xpk", output=str(tmp_path))
    assert observe_local([on_a_cluster], now=NOW) == ()


def test_progress_is_read_from_the_end_of_a_long_log(plan: Plan, tmp_path: Path) -> None:
    ran(plan, tmp_path)
    log = Path(json.loads(run_folder_of(plan).record.read_text())["attempts"][-1]["log"])
    log.write_text("noise\n" * 100_000 + log.read_text())
    os.utime(log, (0, 0))
    observation = seen(plan)
    assert observation.progress is not None
    assert observation.progress.step == plan.run.spec.train.steps
    assert observation.progress.said_at == "1970-01-01T00:00:00+00:00"
