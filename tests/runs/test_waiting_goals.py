from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.observations import NOW, observed
from tests.replacing import replace
from xsft.base.state_names import ENDED, RUNNING, STATES, State
from xsft.cluster.observation import Status
from xsft.runs.rows import Row, Worthless, row_of
from xsft.runs.waiting import DONE, Goal, beyond, parse_goal, verdict

RUNNING_GOAL = Goal(kind="running")


def row(state: State, *, step: int | None = 120, steps: int | None = 1000) -> Row:
    return replace(row_of(observed(), Status(state=state), now=NOW), step=step, steps=steps)


@pytest.mark.parametrize(
    ("text", "goal"), [("done", DONE), ("running", RUNNING_GOAL), ("step=12", Goal(kind="step", step=12))]
)
def test_goals_are_parsed_and_printed(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal
    assert goal.text == text


@pytest.mark.parametrize("text", ["", "finished", "step", "step=0", "step=-1", "step=1e3", "step=٣", "Done"])
def test_other_goals_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="done, running, or step=N"):
        parse_goal(text)


@pytest.mark.parametrize("state", STATES)
def test_done_is_reached_only_by_success(state: State) -> None:
    expected = "reached" if state in {"succeeded", "serving"} else ("ended" if state in ENDED else "waiting")
    assert verdict(DONE, row(state)) == expected


@pytest.mark.parametrize("reason", get_args(Worthless))
def test_a_run_that_trains_on_nothing_will_not_be_done(reason: str) -> None:
    lives = replace(row("training"), reason=reason)
    assert verdict(DONE, lives) == "ended"
    assert verdict(RUNNING_GOAL, lives) == "reached"
    assert verdict(Goal(kind="step", step=500), lives) == "waiting"


@pytest.mark.parametrize("state", STATES)
def test_running_is_reached_while_running_and_after_success(state: State) -> None:
    expected = "ended" if state in ENDED else "waiting"
    assert verdict(RUNNING_GOAL, row(state)) == ("reached" if state in {*RUNNING, "succeeded"} else expected)


@given(st.sampled_from(STATES), st.none() | st.integers(0, 2000), st.integers(1, 1000))
def test_a_step_goal_is_reached_when_the_step_is_done(state: State, step: int | None, wanted: int) -> None:
    fit_verdict = verdict(Goal(kind="step", step=wanted), row(state, step=step))
    done = 1000 if state == "succeeded" else step
    assert (fit_verdict == "reached") == (done is not None and done >= wanted)
    assert (fit_verdict == "ended") == (fit_verdict != "reached" and state in ENDED)


def test_a_step_beyond_the_last_is_never_reached() -> None:
    assert beyond(Goal(kind="step", step=1001), row("training"))
    assert not beyond(Goal(kind="step", step=1000), row("training"))
    assert not beyond(Goal(kind="step", step=1001), row("training", steps=None))
    assert not beyond(DONE, row("training"))
