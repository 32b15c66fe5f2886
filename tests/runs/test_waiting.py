"""Waiting, played through with answers in turn and a clock that only pauses move. What the verb prints of it:
tests/verbs/test_wait.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.observations import NOW, local, observed, runs_read, said
from tests.verbs.test_status import SILENT
from xsft.base.errors import RunFailed, Unknown, Unreachable
from xsft.base.problems import warning
from xsft.base.state_names import State
from xsft.cluster.observation import Observation, Status, Unread
from xsft.runs import waiting
from xsft.runs.lookup import RunsAnswer, RunsRead, answer_of
from xsft.runs.waiting import DONE, Clock, Goal, WaitLimits, WaitResult, error_of, row_of_waited, wait_for

RUNNING = Goal(kind="running")
DEAF = runs_read((), (SILENT,), answered=False, whole=False)
EMPTY = runs_read()
HALF = runs_read((local("other"),), Unreachable("lab is silent").problems, whole=False)


NO_JOBSETS = (Unread(what="jobsets", why="timeout"),)
"""What beside it is of an earlier call."""


def at(state: State | str, step: int | None = None, **changed: Any) -> RunsRead:
    """The state travels in the run's mode, so that one observation is one state."""
    progress = None if step is None else said(step)
    return runs_read((observed(mode=state, progress=progress, **changed),))


UNHEARD = at("unknown", unread=(Unread(what="log", why="late"),))


def state_told(observation: Observation) -> Status:
    """`training/no-target-tokens` is a state with its reason."""
    state, _, reason = (observation.mode or "").partition("/")
    any_state: Any = state
    return Status(state=any_state, reason=reason)


class Played:
    """Answers in turn, the last one for ever; time passes in pauses only."""

    def __init__(self, *answers: RunsRead) -> None:
        self.left = list(answers)
        self.seconds = 0.0
        self.pauses: list[float] = []
        self.looks = 0
        self.lines: list[str] = []

    def look(self) -> RunsAnswer:
        self.looks += 1
        read = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        return answer_of(read, classify=state_told, now=NOW)

    def pause(self, seconds: float) -> None:
        assert seconds > 0 or self.seconds == 0
        self.pauses.append(seconds)
        self.seconds += seconds

    @property
    def clock(self) -> Clock:
        return Clock(monotonic=lambda: 1000 + self.seconds, pause=self.pause)

    def wait(
        self, goal: Goal = DONE, *, timeout_s: float | None = 3600, poll_s: float = 10, began_at: float | None = None
    ) -> WaitResult:
        patience = WaitLimits(timeout_s=timeout_s, poll_s=poll_s, began_at=began_at)
        return wait_for("gemma", goal=goal, look=self.look, patience=patience, clock=self.clock, say=self.lines.append)


def test_wait_reports_each_change_until_the_run_succeeds() -> None:
    played = Played(at("queued"), at("training", 1), at("training", 1), at("training", 900), at("succeeded", 1000))
    assert played.wait().outcome == "reached"
    assert played.pauses == [10] * 4
    assert played.lines == [
        "gemma  queued",
        "gemma  training  step 1/1000  loss 2.346",
        "gemma  training  step 900/1000  loss 2.346",
        "gemma  succeeded  step 1000/1000  loss 2.346",
    ]


def test_the_time_between_cancel_and_record_is_not_reported() -> None:
    played = Played(at("training", 5), at("unknown", 5), at("cancelled", 5))
    assert played.wait().outcome == "ended"
    assert [line.split()[1] for line in played.lines] == ["training", "cancelled"]
    lost_run = Played(at("training", 5), at("unknown", 5))
    assert lost_run.wait().outcome == "lost"
    assert [line.split()[1] for line in lost_run.lines] == ["training", "unknown"]


def test_a_silent_cluster_is_waited_for_and_reported_once() -> None:
    played = Played(at("training", 5), DEAF, DEAF, HALF, HALF, at("succeeded", 1000))
    assert played.wait().outcome == "reached"
    assert len(played.lines) == 4
    assert "Still waiting." in played.lines[1]


(EXPIRED,) = Unreachable("lab: the login has expired", fix="Log in again.", id="login-expired", again="never").problems
INDEX = warning("index-unreadable", "", "no entry of the index", "Remove the file.")
(OTHER,) = Unreachable("other: the login has expired", fix="Log in to other.", id="login-expired").problems


def test_an_unreachable_cluster_keeps_the_id_and_the_fix_of_its_failure() -> None:
    unread = (Unread(what="jobsets", why="expired.", fix="Log in again.", id="login-expired", again="never"),)
    waited = Played(runs_read(at("training", 5, unread=unread).observations, (INDEX, OTHER, EXPIRED))).wait()
    assert waited.silence is not None
    last = "Last seen at 2026-11-21T11:59:56Z: gemma  training  step 5/1000  loss 2.346."
    assert waited.silence.message == f"The cluster of gemma does not answer: expired. {last}"
    assert (waited.silence.problem_id, waited.silence.fix) == ("login-expired", "Log in again.")
    (error,) = [error_of("gemma", DONE, waited)]
    assert error is not None
    assert {problem.again for problem in error.problems} == {"never"}


def test_an_expired_login_beside_a_silent_cluster_is_waited_with() -> None:
    both = runs_read((), (EXPIRED, SILENT), answered=False, whole=False)
    assert Played(both, both, at("succeeded", 1000)).wait().outcome == "reached"


def test_one_answer_without_the_run_is_not_its_end() -> None:
    played = Played(at("training", 5), EMPTY, EMPTY, at("training", 6), EMPTY, EMPTY, at("succeeded", 1000))
    assert played.wait().outcome == "reached"


def test_three_answers_without_the_run_are_its_end() -> None:
    played = Played(at("training", 5), EMPTY)
    waited = played.wait()
    assert (waited.outcome, played.looks) == ("lost", 4)


def test_a_run_is_not_lost_while_evidence_is_unread() -> None:
    played = Played(at("training", 5), *[UNHEARD] * 9, at("succeeded"))
    assert played.wait().outcome == "reached"


def test_a_run_just_created_may_be_absent_from_the_first_answer() -> None:
    played = Played(EMPTY, EMPTY, at("queued"), at("succeeded"))
    patience = WaitLimits(timeout_s=None, poll_s=1)
    waited = wait_for(
        "gemma", goal=DONE, look=played.look, patience=patience, clock=played.clock, say=lambda _l: None, known=True
    )
    assert waited.outcome == "reached"


def test_the_last_pause_ends_at_the_timeout() -> None:
    played = Played(at("training", 5))
    waited = played.wait(timeout_s=25)
    assert (waited.outcome, waited.seconds) == ("timeout", 25)
    assert played.pauses == [10, 10, 5]


def test_each_look_and_pause_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    times_left: list[float | None] = []

    def in_time(act: Callable[[], object], left_s: float | None) -> object:
        times_left.append(left_s)
        return act()

    monkeypatch.setattr(waiting, "in_time", in_time)
    assert Played(at("training", 5)).wait(timeout_s=21).seconds == 21
    assert times_left == [21, 21, 11, 11, 1, 1, 0]


def test_the_time_counts_from_when_the_wait_began() -> None:
    played = Played(at("training", 5))
    waited = played.wait(timeout_s=25, began_at=985)
    assert (waited.outcome, waited.seconds, played.pauses) == ("timeout", 25, [10])


def test_a_timeout_of_0_makes_one_look() -> None:
    played = Played(at("training", 5))
    assert played.wait(timeout_s=0).outcome == "timeout"
    assert (played.looks, played.pauses) == (1, [])


def test_wait_without_a_timeout_goes_on_until_the_end() -> None:
    played = Played(*[at("queued")] * 5000, at("succeeded"))
    assert played.wait(timeout_s=None).outcome == "reached"


def test_the_row_that_reached_the_goal_is_returned_or_the_error_raised() -> None:
    done = Played(at("succeeded", 1000)).wait()
    assert row_of_waited("gemma", DONE, done) is done.row
    with pytest.raises(RunFailed):
        row_of_waited("gemma", DONE, Played(at("failed", 5)).wait())
    with pytest.raises(Unknown, match="gemma was not found"):
        row_of_waited("gemma", DONE, WaitResult(outcome="reached", row=None, seconds=0))
