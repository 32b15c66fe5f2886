from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import pytest

from tests.localruns import FakeTrainer, local_plan
from tests.replacing import replace
from xsft.commands.submit import submit_local
from xsft.effects.records.index import read_index
from xsft.errors import RunFailed
from xsft.steps import Plan

pytestmark = pytest.mark.loopback


@pytest.fixture
def fake(tmp_path: Path) -> FakeTrainer:
    folder = tmp_path / "fake"
    folder.mkdir()
    return FakeTrainer(folder=folder)


def plan(tmp_path: Path, **changes: object) -> Plan:
    return local_plan(tmp_path / "out", **{"train__steps": 6, "train__checkpoint_period": 2, **changes})


def test_one_document_on_stdout_and_everything_else_on_stderr(
    tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    told = io.StringIO()
    status = submit_local(plan(tmp_path), json=True, machine=fake.machine(), stderr=told)
    document = json.loads(capsys.readouterr().out)
    folder = tmp_path / "out" / "tiny-local"
    assert status == 0
    assert document | {"spec_digest": "", "log": ""} == {
        "schema": "xsft.submit/1",
        "run_name": "tiny-local",
        "jobset": None,
        "action": "created",
        "uid": None,
        "spec_digest": "",
        "record": str(folder / "xsft" / "run.json"),
        "result": {"steps": 6, "first_loss": 6.9, "last_loss": 6.4},
        "resumed_from": None,
        "resumed_order": None,
        "checkpoints": [str(folder / "checkpoints" / n) for n in ("1", "2", "4", "6")],
        "log": "",
        "plot": str(folder / "xsft" / "loss.png"),
        "private_pids": False,
        "problems": [],
    }
    assert (folder / "xsft" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "6 of 6 steps, loss 6.900 -> 6.400" in told.getvalue()


def test_people_get_a_report_on_stdout(tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]) -> None:
    told = io.StringIO()
    assert submit_local(plan(tmp_path), json=False, machine=fake.machine(), stderr=told) == 0
    out = capsys.readouterr().out
    assert f"checkpoints  {tmp_path}/out/tiny-local/checkpoints/{{1,2,4,6}}" in out
    assert "loss.png" in out
    assert f"tensorboard  {tmp_path}/out/tiny-local/tensorboard\n" in out
    assert "profile " not in out
    assert "step 6/6" in told.getvalue()


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
    assert [one["id"] for one in json.loads(shown.out)["problems"]] == ["loss-zero"]
    assert "[loss-zero]" in shown.err


class Interrupting(io.StringIO):
    """A user who presses Ctrl-C when the checkpoint of step 4 is there."""

    def write(self, text: str) -> int:
        if "saved checkpoint 4" in text:
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


@pytest.mark.early
def test_an_interrupt_says_how_to_go_on(tmp_path: Path, fake: FakeTrainer) -> None:
    told = Interrupting()
    status = submit_local(plan(tmp_path), json=False, machine=fake.machine(hang_at=4), stderr=told)
    assert status == 130
    assert "interrupted after step 4 of 6; the trainer is stopped" in told.getvalue()
    assert "(step 4); run the command again to resume" in told.getvalue()
