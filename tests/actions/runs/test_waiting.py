"""`xsft wait`, played through with answers in turn and a clock that only pauses move."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.test_status import SILENT
from tests.documents import read_document
from tests.observations import NOW, Read, local, observed, said
from xsft.actions.runs.waiting import (
    Clock,
    Waited,
    WaitLimits,
    error_of,
    row_of_waited,
    wait_and_report,
    wait_for,
)
from xsft.commands.verbs import parser
from xsft.errors import RunFailed, TimedOut, Unknown, Unreachable, UsageError, XsftError
from xsft.problems import Problem, warning
from xsft.run_query import RunQuery
from xsft.states.folding import RowFilter
from xsft.states.model import Observation, Status, Unread
from xsft.states.names import State
from xsft.states.rows import Row
from xsft.states.waiting import DONE, Goal

RUNNING = Goal(kind="running")
DEAF = Read((), (SILENT,), answered=False, whole=False)
EMPTY = Read()
HALF = Read((local("other"),), Unreachable("lab is silent").problems, whole=False)


NO_JOBSETS = (Unread(what="jobsets", why="timeout"),)
"""What beside it is of an earlier call."""


def at(state: State | str, step: int | None = None, **changed: Any) -> Read:
    """The state travels in the run's mode, so that one observation is one state."""
    progress = None if step is None else said(step)
    return Read((observed(mode=state, progress=progress, **changed),))


UNHEARD = at("unknown", unread=(Unread(what="log", why="late"),))


def state_told(seen: Observation, *, now: str) -> Status:
    """`training/no-target-tokens` is a state with its reason."""
    state, _, reason = (seen.mode or "").partition("/")
    found: Any = state
    return Status(state=found, reason=reason)


class Played:
    """Answers in turn, the last one for ever; time passes in pauses only."""

    def __init__(self, *answers: Read) -> None:
        self.left = list(answers)
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.looks = 0
        self.lines: list[str] = []

    def read(self) -> Read:
        self.looks += 1
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def pause(self, seconds: float) -> None:
        assert seconds > 0 or self.seconds == 0
        self.pauses.append(seconds)
        self.seconds += seconds

    @property
    def query(self) -> RunQuery:
        return RunQuery(read=self.read, classify=state_told, wanted=RowFilter(everything=True), now=lambda: NOW)

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: 1000 + self.seconds, pause=self.pause)

    def wait(
        self, goal: Goal = DONE, *, timeout_s: float | None = 3600, poll_s: float = 10, began_at: float | None = None
    ) -> Waited:
        patience = WaitLimits(timeout_s=timeout_s, poll_s=poll_s, began_at=began_at)
        return wait_for(
            "gemma", goal=goal, query=self.query, patience=patience, clock=self.clock, say=self.lines.append
        )

    def status(self, goal: Goal = DONE, *, timeout_s: float | None = 600, json: bool = False) -> int:
        patience = WaitLimits(timeout_s=timeout_s, poll_s=10)
        try:
            return wait_and_report("gemma", goal=goal, query=self.query, patience=patience, clock=self.clock, json=json)
        except XsftError as failed:
            return failed.exit_status


def test_until_it_is_done() -> None:
    played = Played(at("queued"), at("training", 1), at("training", 1), at("training", 900), at("succeeded", 1000))
    assert played.wait().outcome == "reached"
    assert played.pauses == [10] * 4
    assert played.lines == [
        "gemma  queued",
        "gemma  training  step 1/1000  loss 2.346",
        "gemma  training  step 900/1000  loss 2.346",
        "gemma  succeeded  step 1000/1000  loss 2.346",
    ]


WORTHLESS = "training/no-target-tokens"


def test_a_run_that_learns_nothing_is_not_waited_for_and_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    played, recorded = Played(at("training", 1), at(WORTHLESS, 3), at("succeeded", 1000)), []

    def record(row: Row) -> tuple[Problem, ...]:
        recorded.append((row.uid, row.reason))
        return (warning("end-not-recorded", "", "no", ""),)

    patience = WaitLimits(timeout_s=3600, poll_s=10)
    with pytest.raises(RunFailed) as failed:
        wait_and_report(
            "gemma", goal=DONE, query=played.query, patience=patience, clock=played.clock, json=False, record=record
        )
    assert failed.value.message == "gemma  training (no-target-tokens)  step 3/1000  loss 2.346: will not reach done."
    assert failed.value.fix == "xsft why gemma. It still runs: xsft cancel gemma ends it."
    assert recorded == [("uid-gemma", "no-target-tokens")]
    assert "[end-not-recorded]" in capsys.readouterr().err
    assert Played(at(WORTHLESS, 3)).status(RUNNING) == 0
    assert Played(at(WORTHLESS, 3), at("failed/no-target-tokens", 10)).status(Goal(kind="step", step=10)) == 0


@pytest.mark.parametrize(("goal", "recorded"), [(DONE, ["succeeded"]), (RUNNING, [])])
def test_the_end_is_recorded_of_a_run_that_is_over(goal: Goal, recorded: list[str]) -> None:
    played, seen = Played(at("training", 1), at("succeeded", 1000)), list[str]()

    def record(row: Row) -> tuple[Problem, ...]:
        seen.append(row.state)
        return ()

    patience = WaitLimits(timeout_s=3600, poll_s=10)
    asked = {"goal": goal, "query": played.query, "patience": patience, "clock": played.clock, "json": False}
    assert wait_and_report("gemma", **asked, record=record) == 0
    assert seen == recorded


def test_a_loss_of_0_is_reported_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    zero = Read((observed(mode="succeeded", progress=said(1000, zero_loss_steps=40)),))
    assert Played(zero).status(json=True) == 0
    shown = capsys.readouterr()
    assert [one["id"] for one in json.loads(shown.out)["problems"]] == ["loss-zero"]
    assert "[loss-zero]" in shown.err


def test_the_time_between_cancel_and_record_is_not_reported() -> None:
    played = Played(at("training", 5), at("unknown", 5), at("cancelled", 5))
    assert played.wait().outcome == "ended"
    assert [line.split()[1] for line in played.lines] == ["training", "cancelled"]
    lost = Played(at("training", 5), at("unknown", 5))
    assert lost.wait().outcome == "lost"
    assert [line.split()[1] for line in lost.lines] == ["training", "unknown"]


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
)
def test_what_came_of_it_is_the_exit_status(answers: tuple[Read, ...], goal: Goal, status: int) -> None:
    assert Played(*answers).status(goal) == status


def test_a_silent_cluster_is_waited_for_and_reported_once() -> None:
    played = Played(at("training", 5), DEAF, DEAF, HALF, HALF, at("succeeded", 1000))
    assert played.wait().outcome == "reached"
    assert len(played.lines) == 4
    assert "Still waiting." in played.lines[1]


(EXPIRED,) = Unreachable("lab: the login has expired", fix="Log in again.", id="login-expired", again="never").problems
INDEX = warning("index-unreadable", "", "no entry of the index", "Remove the file.")


@pytest.mark.parametrize(
    "answers",
    [
        (Read((), (EXPIRED,), answered=False, whole=False),),
        (Read((), (EXPIRED, INDEX), answered=False, whole=False),),
        (Read((local("other"),), (EXPIRED,), whole=False),),
        (at("training", 5), Read((), (EXPIRED,), answered=False, whole=False)),
        (at("training", 5, unread=(Unread(what="jobsets", why="expired", id="login-expired", again="never"),)),),
    ],
)
@pytest.mark.parametrize("timeout_s", [None, 3600])
def test_what_waiting_cannot_fix_ends_it_at_once(answers: tuple[Read, ...], timeout_s: float | None) -> None:
    played = Played(*answers)
    assert played.status(timeout_s=timeout_s) == 5
    assert played.looks == len(answers)


def test_a_login_that_expired_keeps_its_id_and_its_fix() -> None:
    deaf = Read((), (EXPIRED,), answered=False, whole=False)
    with pytest.raises(
        Unreachable, match=r"will not help: .*the login has expired.*Last seen: gemma  training"
    ) as ended:
        wait_and_report(
            "gemma",
            goal=DONE,
            query=(played := Played(at("training", 5), deaf)).query,
            patience=WaitLimits(timeout_s=None, poll_s=10),
            clock=played.clock,
            json=False,
        )
    assert (ended.value.problem_id, ended.value.fix) == ("login-expired", "Log in again.")


def test_a_run_whose_cluster_does_not_answer_keeps_the_id_and_the_fix_of_the_failure() -> None:
    unread = (Unread(what="jobsets", why="expired.", id="login-expired", again="never"),)
    waited = Played(Read(at("training", 5, unread=unread).observations, (INDEX, EXPIRED))).wait()
    assert waited.silence is not None
    assert waited.silence.message == "The cluster of gemma does not answer: expired."
    assert (waited.silence.problem_id, waited.silence.fix) == ("login-expired", "Log in again.")
    (error,) = [error_of("gemma", DONE, waited)]
    assert error is not None
    assert {problem.again for problem in error.problems} == {"never"}


def test_an_expired_login_beside_a_silent_cluster_is_waited_with() -> None:
    both = Read((), (EXPIRED, SILENT), answered=False, whole=False)
    assert Played(both, both, at("succeeded", 1000)).wait().outcome == "reached"


def test_one_answer_without_the_run_is_not_its_end() -> None:
    played = Played(at("training", 5), EMPTY, EMPTY, at("training", 6), EMPTY, EMPTY, at("succeeded", 1000))
    assert played.wait().outcome == "reached"


def test_three_answers_without_the_run_are() -> None:
    played = Played(at("training", 5), EMPTY)
    waited = played.wait()
    assert (waited.outcome, played.looks) == ("lost", 4)


def test_not_having_read_all_evidence_is_not_being_gone() -> None:
    played = Played(at("training", 5), *[UNHEARD] * 9, at("succeeded"))
    assert played.wait().outcome == "reached"


def test_one_that_was_created_just_now_may_be_a_moment_late() -> None:
    played = Played(EMPTY, EMPTY, at("queued"), at("succeeded"))
    patience = WaitLimits(timeout_s=None, poll_s=1)
    waited = wait_for(
        "gemma", goal=DONE, query=played.query, patience=patience, clock=played.clock, say=lambda _l: None, known=True
    )
    assert waited.outcome == "reached"


def test_the_last_pause_ends_with_the_time() -> None:
    played = Played(at("training", 5))
    waited = played.wait(timeout_s=25)
    assert (waited.outcome, waited.seconds) == ("timeout", 25)
    assert played.pauses == [10, 10, 5]


def test_the_time_counts_from_when_the_wait_began() -> None:
    played = Played(at("training", 5))
    waited = played.wait(timeout_s=25, began_at=985)
    assert (waited.outcome, waited.seconds, played.pauses) == ("timeout", 25, [10])


def test_no_time_at_all_is_one_look() -> None:
    played = Played(at("training", 5))
    assert played.wait(timeout_s=0).outcome == "timeout"
    assert (played.looks, played.pauses) == (1, [])


def test_without_a_timeout_it_waits_on() -> None:
    played = Played(*[at("queued")] * 5000, at("succeeded"))
    assert played.wait(timeout_s=None).outcome == "reached"


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ((at("failed", 5),), RunFailed, "failed.*step 5/1000.*ended without reaching done"),
        ((at("training", 5),), TimedOut, "Timed out after 1h.*step 5/1000"),
        ((at("training", 5), EMPTY), Unknown, "ended or is gone.*Last seen: gemma  training"),
        ((DEAF,), Unreachable, "Timed out after 1h: .* was not found.*does not answer"),
        ((UNHEARD,), Unknown, "Timed out after 1h; the state of gemma is unknown: gemma  unknown"),
        ((Read((observed("gamma"),)),), UsageError, "Did you mean gamma"),
    ],
)
def test_the_printed_text(answers: tuple[Read, ...], kind: type[XsftError], words: str) -> None:
    played = Played(*answers)
    patience = WaitLimits(timeout_s=3600, poll_s=10)
    with pytest.raises(kind, match=words) as raised:
        wait_and_report("gemma", goal=DONE, query=played.query, patience=patience, clock=played.clock, json=False)
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
)
def test_every_outcome_prints_one_document(
    answers: tuple[Read, ...], status: int, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Played(*answers).status(json=True) == status
    told = capsys.readouterr()
    (line,) = told.out.splitlines()
    read_document("wait", line)
    document = json.loads(line)
    assert (document["exit_status"], document["outcome"], document["for"]) == (status, outcome, "done")
    assert document["run_name"] == "gemma"
    assert [one["message"] in told.err for one in document["problems"]] == [True] * bool(status)


def test_the_row_that_reached_the_goal_is_returned_or_the_error_raised() -> None:
    done = Played(at("succeeded", 1000)).wait()
    assert row_of_waited("gemma", DONE, done) is done.row
    with pytest.raises(RunFailed):
        row_of_waited("gemma", DONE, Played(at("failed", 5)).wait())
    with pytest.raises(Unknown, match="gemma was not found"):
        row_of_waited("gemma", DONE, Waited(outcome="reached", row=None, seconds=0))


def test_the_arguments() -> None:
    args = parser(only="wait").parse_args(("wait", "gemma", "--for", "step=5", "--timeout", "2h", "--poll", "1s"))
    assert (args.goal, args.timeout, args.poll) == (Goal(kind="step", step=5), 7200, 1)
    assert parser(only="wait").parse_args(("wait", "gemma")).goal == DONE
    for wrong in (("--for", "end"), ("--timeout", "2 hours")):
        with pytest.raises(UsageError, match="write"):
            parser(only="wait").parse_args(("wait", "gemma", *wrong))


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert Played(at("training", 5), at("succeeded", 1000)).status() == 0
    told = capsys.readouterr()
    assert told.out == "gemma  succeeded  step 1000/1000  loss 2.346\n"
    assert told.err.splitlines()[0] == "gemma  training  step 5/1000  loss 2.346"
