from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.localruns import FakeTrainer, local_plan
from tests.replacing import replace
from xsft.base.errors import RunFailed
from xsft.planning.steps import Plan
from xsft.records.index import read_index
from xsft.verbs.submit import submit_local

pytestmark = pytest.mark.loopback


def plan(tmp_path: Path, **changes: object) -> Plan:
    return local_plan(tmp_path / "out", **{"train__steps": 6, "train__checkpoint_period": 2, **changes})


def test_the_run_is_in_the_index_of_this_machine(tmp_path: Path, fake: FakeTrainer) -> None:
    machine = fake.machine()
    state = tmp_path / "state"
    machine = replace(machine, env={**machine.env, "XSFT_STATE_DIR": str(state)})
    submit_local(plan(tmp_path), json=True, machine=machine, stderr=io.StringIO())
    (entry,) = read_index(state / "runs").entries
    assert (entry.run_name, entry.target, entry.output, entry.steps) == (
        "tiny-local",
        "local",
        str(tmp_path / "out"),
        6,
    )
    assert Path(entry.record).is_file()


def test_a_finished_run_needs_no_trainer(tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]) -> None:
    submit_local(plan(tmp_path), json=True, machine=fake.machine(), stderr=io.StringIO())
    first = json.loads(capsys.readouterr().out)
    assert submit_local(plan(tmp_path), json=True, machine=fake.machine(exit=1), stderr=io.StringIO()) == 0
    assert json.loads(capsys.readouterr().out) == first | {"action": "finished"}


@pytest.mark.early
def test_a_short_run_fails_with_how_far_it_came_and_why(
    tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunFailed, match="tiny-local: 3 of 6 steps: the data ended") as failed:
        submit_local(plan(tmp_path), json=True, machine=fake.machine(data_ends=3), stderr=io.StringIO())
    assert failed.value.exit_status == 6
    assert "trainer-1.log" in failed.value.fix
    assert capsys.readouterr().out == ""


def test_every_failure_names_a_next_step(tmp_path: Path, fake: FakeTrainer) -> None:
    loading = (
        "Traceback (most recent call last):",
        '  File "/x/maxtext/input_pipeline/hf_data_processing.py", line 512',
    )
    with pytest.raises(RunFailed, match="the data set has no rows") as empty:
        submit_local(
            local_plan(tmp_path / "a"), json=False, machine=fake.machine(plain=(*loading, "StopIteration"), exit=1)
        )
    assert "data.hf_train_files" in empty.value.fix
    with pytest.raises(RunFailed, match="KeyError") as other:
        submit_local(local_plan(tmp_path / "b"), json=False, machine=fake.machine(plain=("KeyError: 'x'",), exit=1))
    assert other.value.fix.startswith(f"xsft why {tmp_path / 'b' / 'tiny-local'} ")
    with pytest.raises(RunFailed, match="was killed") as killed:
        submit_local(local_plan(tmp_path / "c"), json=False, machine=fake.machine(exit=137))
    assert "train.per_device_batch_size" in killed.value.fix


def test_a_run_that_learns_nothing_fails_also_the_second_time(
    tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = fake.machine(targets=0, losses={str(n): 0.0 for n in range(1, 7)})
    for _ in range(2):
        with pytest.raises(RunFailed, match="tiny-local: 6 of 6 steps: 6 steps in a row had no target token") as failed:
            submit_local(plan(tmp_path), json=True, machine=machine, stderr=io.StringIO())
        assert failed.value.exit_status == 6
        assert "finished" not in capsys.readouterr().out


def test_a_loss_of_0_with_targets_is_reported_and_is_no_failure(
    tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = fake.machine(losses={str(n): 0.0 for n in range(1, 7)})
    assert submit_local(plan(tmp_path), json=True, machine=machine, stderr=io.StringIO()) == 0
    shown = capsys.readouterr()
    assert [problem["id"] for problem in json.loads(shown.out)["problems"]] == ["loss-zero"]
    assert "[loss-zero]" in shown.err
