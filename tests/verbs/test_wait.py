"""`xsft wait`: exit status, text and document. How it waits: tests/runs/test_waiting.py."""

from __future__ import annotations

import json

import pytest

from tests.documents import read_document
from tests.observations import local, observed, runs_read, said
from tests.runs.test_waiting import DEAF, EMPTY, EXPIRED, HALF, INDEX, NO_JOBSETS, RUNNING, UNHEARD, Played, at
from xsft.base.errors import RunFailed, TimedOut, Unknown, Unreachable, UsageError, XsftError
from xsft.base.problems import Problem, warning
from xsft.cluster.observation import Unread
from xsft.runs.lookup import RunsRead
from xsft.runs.rows import Row
from xsft.runs.waiting import DONE, Goal, WaitLimits
from xsft.verbs.cli import parser, report_failure
from xsft.verbs.wait import wait_and_report


def exit_status(played: Played, goal: Goal = DONE, *, timeout_s: float | None = 600, json: bool = False) -> int:
    patience = WaitLimits(timeout_s=timeout_s, poll_s=10)
    try:
        return wait_and_report("gemma", goal=goal, look=played.look, patience=patience, clock=played.clock, json=json)
    except XsftError as failed:
        return report_failure(failed, ("wait", "gemma", *(("--json",) if json else ())))


WORTHLESS = "training/no-target-tokens"


def test_a_run_that_learns_nothing_is_not_waited_for_and_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    played, recorded = Played(at("training", 1), at(WORTHLESS, 3), at("succeeded", 1000)), []

    def record(row: Row) -> tuple[Problem, ...]:
        recorded.append((row.uid, row.reason))
        return (warning("end-not-recorded", "", "no", ""),)

    patience = WaitLimits(timeout_s=3600, poll_s=10)
    with pytest.raises(RunFailed) as failed:
        wait_and_report(
            "gemma", goal=DONE, look=played.look, patience=patience, clock=played.clock, json=False, record=record
        )
    assert failed.value.message == "gemma  training (no-target-tokens)  step 3/1000  loss 2.346: will not reach done."
    assert failed.value.fix == "xsft why gemma. It still runs: xsft cancel gemma ends it."
    assert recorded == [("uid-gemma", "no-target-tokens")]
    assert "[end-not-recorded]" in capsys.readouterr().err
    assert exit_status(Played(at(WORTHLESS, 3)), RUNNING) == 0
    assert exit_status(Played(at(WORTHLESS, 3), at("failed/no-target-tokens", 10)), Goal(kind="step", step=10)) == 0


@pytest.mark.parametrize(("goal", "recorded"), [(DONE, ["succeeded"]), (RUNNING, [])])
def test_wait_records_the_end_of_a_run_only_if_it_is_over(goal: Goal, recorded: list[str]) -> None:
    played, seen = Played(at("training", 1), at("succeeded", 1000)), list[str]()

    def record(row: Row) -> tuple[Problem, ...]:
        seen.append(row.state)
        return ()

    patience = WaitLimits(timeout_s=3600, poll_s=10)
    arguments = {"goal": goal, "look": played.look, "patience": patience, "clock": played.clock, "json": False}
    assert wait_and_report("gemma", **arguments, record=record) == 0
    assert seen == recorded


def test_a_loss_of_0_is_reported_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    zero = runs_read((observed(mode="succeeded", progress=said(1000, zero_loss_steps=40)),))
    assert exit_status(Played(zero), json=True) == 0
    shown = capsys.readouterr()
    assert [problem["id"] for problem in json.loads(shown.out)["problems"]] == ["loss-zero"]
    assert "[loss-zero]" in shown.err


@pytest.mark.parametrize(
    ("answers", "goal", "status"),
    [
        ((at("training", 5), at("succeeded", 1000)), DONE, 0),
        ((at("training", 5), at("failed", 5)), DONE, 6),
        ((at("cancelled"),), DONE, 6),
        ((at("evicted"), at("queued"), at("compiling")), RUNNING, 0),
        ((at("queued"), at("failed")), RUNNING, 6),
        ((at("succeeded"),), RUNNING, 0),
        ((at("stalled", 5),), RUNNING, 7),
        ((at("training", 5), at("training", 10)), Goal(kind="step", step=10), 0),
        ((at("training", 5), at("failed", 9)), Goal(kind="step", step=10), 6),
        ((at("training", 5), at("training", 9)), Goal(kind="step", step=10), 7),
        ((at("succeeded", None),), Goal(kind="step", step=1000), 0),
        ((DEAF,), DONE, 5),
        ((HALF,), DONE, 5),
        ((DEAF, at("training", 5)), DONE, 7),
        ((at("training", 5), DEAF), DONE, 7),
        ((at("training", 5, unread=NO_JOBSETS),), DONE, 5),
        ((at("training", 5), at("training", 5, unread=NO_JOBSETS)), DONE, 7),
        ((at("succeeded", 1000, unread=NO_JOBSETS),), DONE, 0),
        ((at("failed", 5, unread=NO_JOBSETS),), DONE, 5),
        ((at("unknown"),), DONE, 8),
        ((at("training", 5), EMPTY), DONE, 8),
        ((EMPTY,), DONE, 2),
        ((at("training", 5),), Goal(kind="step", step=1001), 2),
    ],
    ids=[
        "done: succeeded",
        "done: failed",
        "done: cancelled",
        "running: compiling",
        "running: failed",
        "running: succeeded",
        "running: stalled",
        "step reached",
        "step: failed before",
        "step: timed out before",
        "step: succeeded",
        "no answer",
        "half an answer",
        "no answer, then training",
        "training, then no answer",
        "JobSets unread",
        "JobSets unread later",
        "succeeded, JobSets unread",
        "failed, JobSets unread",
        "unknown state",
        "gone after training",
        "never seen",
        "step beyond the last",
    ],
)
def test_the_outcome_decides_the_exit_status_of_wait(answers: tuple[RunsRead, ...], goal: Goal, status: int) -> None:
    assert exit_status(Played(*answers), goal) == status


@pytest.mark.parametrize(
    "answers",
    [
        (runs_read((), (EXPIRED,), answered=False, whole=False),),
        (runs_read((), (EXPIRED, INDEX), answered=False, whole=False),),
        (runs_read((local("other"),), (EXPIRED,), whole=False),),
        (at("training", 5), runs_read((), (EXPIRED,), answered=False, whole=False)),
        (at("training", 5, unread=(Unread(what="jobsets", why="expired", id="login-expired", again="never"),)),),
    ],
    ids=["expired", "expired, index unread", "expired, another run known", "expired later", "expired for JobSets"],
)
@pytest.mark.parametrize("timeout_s", [None, 3600])
def test_wait_ends_at_once_for_an_error_that_waiting_cannot_fix(
    answers: tuple[RunsRead, ...], timeout_s: float | None
) -> None:
    played = Played(*answers)
    assert exit_status(played, timeout_s=timeout_s) == 5
    assert played.looks == len(answers)


def test_a_login_that_expired_keeps_its_id_and_its_fix() -> None:
    deaf = runs_read((), (EXPIRED,), answered=False, whole=False)
    with pytest.raises(
        Unreachable, match=r"will not help: .*the login has expired.*Last seen: gemma  training"
    ) as ended:
        wait_and_report(
            "gemma",
            goal=DONE,
            look=(played := Played(at("training", 5), deaf)).look,
            patience=WaitLimits(timeout_s=None, poll_s=10),
            clock=played.clock,
            json=False,
        )
    assert (ended.value.problem_id, ended.value.fix) == ("login-expired", "Log in again.")


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ((at("failed", 5),), RunFailed, "failed.*step 5/1000.*ended without reaching done"),
        ((at("training", 5),), TimedOut, "Timed out after 1h.*step 5/1000"),
        ((at("training", 5), EMPTY), Unknown, "ended or is gone.*Last seen: gemma  training"),
        ((DEAF,), Unreachable, "Timed out after 1h; the state of gemma is unknown. .*does not answer"),
        ((UNHEARD,), Unknown, "Timed out after 1h; the state of gemma is unknown: gemma  unknown"),
        ((runs_read((observed("gamma"),)),), UsageError, "Did you mean gamma"),
    ],
    ids=["failed", "timed out", "gone", "no answer", "state unknown", "misspelled name"],
)
def test_every_error_of_wait_has_its_type_message_and_fix(
    answers: tuple[RunsRead, ...], kind: type[XsftError], words: str
) -> None:
    played = Played(*answers)
    patience = WaitLimits(timeout_s=3600, poll_s=10)
    with pytest.raises(kind, match=words) as raised:
        wait_and_report("gemma", goal=DONE, look=played.look, patience=patience, clock=played.clock, json=False)
    assert raised.value.fix


@pytest.mark.parametrize(
    ("answers", "status", "outcome"),
    [
        ((at("succeeded", 1000),), 0, "reached"),
        ((at("failed", 3),), 6, "ended"),
        ((at("training", 3),), 7, "timeout"),
        ((at("training", 3), EMPTY), 8, "lost"),
        ((DEAF,), 5, "unreachable"),
    ],
    ids=["succeeded", "failed", "training", "gone", "no answer"],
)
def test_every_outcome_of_wait_prints_one_document(
    answers: tuple[RunsRead, ...], status: int, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(Played(*answers), json=True) == status
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    document = read_document("wait", line)
    assert (document["exit_status"], document["outcome"], document["for"]) == (status, outcome, "done")
    assert document["run_name"] == "gemma"
    assert [problem["message"] in captured.err for problem in document["problems"]] == [True] * bool(status)


def test_wait_parses_its_arguments() -> None:
    args = parser(only="wait").parse_args(("wait", "gemma", "--for", "step=5", "--timeout", "2h", "--poll", "1s"))
    assert (args.goal, args.timeout_s, args.poll_s) == (Goal(kind="step", step=5), 7200, 1)
    assert parser(only="wait").parse_args(("wait", "gemma")).goal == DONE
    for wrong in (("--for", "end"), ("--timeout", "2 hours")):
        with pytest.raises(UsageError, match="write"):
            parser(only="wait").parse_args(("wait", "gemma", *wrong))


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(Played(at("training", 5), at("succeeded", 1000))) == 0
    captured = capsys.readouterr()
    assert captured.out == "gemma  succeeded  step 1000/1000  loss 2.346\n"
    assert captured.err.splitlines()[0] == "gemma  training  step 5/1000  loss 2.346"
