"""`xsft submit`: what is printed, and the exit status. What is done: tests/actions/submit."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path

import pytest

from tests.documents import read_document
from tests.launch.test_local_run_here import plan
from tests.launch.test_wait_for_end import submit
from tests.localruns import FakeTrainer
from tests.runs.test_waiting import EMPTY, at
from tests.submissions import NAME
from xsft.base.errors import UsageError, XsftError
from xsft.runs.lookup import RunsRead
from xsft.verbs.cli import parser, report_failure
from xsft.verbs.submit import run, submit_local


def test_it_is_created_and_then_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit(EMPTY, at("queued"), at("training", 5), at("succeeded", 1000)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{NAME}: created JobSet")
    assert lines[-1] == f"{NAME}  succeeded  step 1000/1000  loss 2.346"


@pytest.mark.parametrize(
    ("answers", "status"), [((at("succeeded", 1000),), 0), ((at("failed", 3),), 6)], ids=["succeeded", "failed"]
)
def test_one_document_at_the_end(
    answers: tuple[RunsRead, ...], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _reported(at("training", 1), *answers) == status
    (line,) = capsys.readouterr().out.splitlines()
    printed = read_document("submit", line)
    assert (printed["action"], printed["exit_status"], printed["run"]["state"]) == (
        "created",
        status,
        "succeeded" if status == 0 else "failed",
    )
    assert bool(printed["problems"]) == bool(status)


def _reported(*answers: RunsRead) -> int:
    """Return the exit status; the document is printed, also that of an error."""
    try:
        return submit(*answers, json=True)
    except XsftError as failed:
        return report_failure(failed, ("submit", "--json"))


def test_a_time_without_waiting_is_refused() -> None:
    with pytest.raises(UsageError, match="--timeout needs --wait"):
        run(parser(only="submit").parse_args(("submit", "w.yaml", "--timeout", "2h")))


@pytest.mark.loopback
def test_one_document_on_stdout_and_everything_else_on_stderr(
    tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]
) -> None:
    string_io = io.StringIO()
    status = submit_local(plan(tmp_path), json=True, machine=fake.machine(), stderr=string_io)
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
        "run": None,
        "problems": [],
        "exit_status": 0,
    }
    assert (folder / "xsft" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert "6 of 6 steps, loss 6.900 -> 6.400" in string_io.getvalue()


@pytest.mark.loopback
def test_people_get_a_report_on_stdout(tmp_path: Path, fake: FakeTrainer, capsys: pytest.CaptureFixture[str]) -> None:
    string_io = io.StringIO()
    assert submit_local(plan(tmp_path), json=False, machine=fake.machine(), stderr=string_io) == 0
    out = capsys.readouterr().out
    assert f"checkpoints  {tmp_path}/out/tiny-local/checkpoints/{{1,2,4,6}}" in out
    assert "loss.png" in out
    assert f"tensorboard  {tmp_path}/out/tiny-local/tensorboard\n" in out
    assert "profile " not in out
    assert "step 6/6" in string_io.getvalue()


class Interrupting(io.StringIO):
    """A user who presses Ctrl-C when the checkpoint of step 4 is there."""

    def write(self, text: str) -> int:
        if "saved checkpoint 4" in text:
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def test_an_interrupt_says_how_to_go_on(tmp_path: Path, fake: FakeTrainer) -> None:
    interrupting = Interrupting()
    status = submit_local(plan(tmp_path), json=False, machine=fake.machine(hang_at=4), stderr=interrupting)
    assert status == 130
    assert "interrupted after step 4 of 6; the trainer is stopped" in interrupting.getvalue()
    assert "(step 4); run the command again to resume" in interrupting.getvalue()
