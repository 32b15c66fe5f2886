from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.trainer.lines import Step
from xsft.trainer.progress import Tally

NOTHING = Step(step=0, loss=0.0, target_tokens=0)
WELL = Step(step=0, loss=2.5, target_tokens=84)
ZERO = Step(step=0, loss=0.0, target_tokens=84)
NAN = Step(step=0, loss=nan, target_tokens=84)
INF = Step(step=0, loss=inf, target_tokens=84)


def tallied(*steps: Step, first: int = 1) -> tuple[int, int, int]:
    tally = Tally()
    for number, step in enumerate(steps, first):
        tally.take(Step(step=number, loss=step.loss, target_tokens=step.target_tokens))
    return tally.no_target_steps, tally.not_finite_steps, tally.zero_loss_steps


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        ((), (0, 0, 0)),
        ((WELL, WELL), (0, 0, 0)),
        ((NOTHING, NOTHING, NOTHING), (3, 0, 0)),
        ((NOTHING, NOTHING, WELL, NOTHING), (2, 0, 0)),
        ((WELL, NOTHING, NOTHING, NOTHING, WELL), (3, 0, 0)),
        ((NAN, WELL, NAN, INF), (0, 3, 0)),
        ((ZERO, ZERO, NOTHING, ZERO), (1, 0, 2)),
    ],
    ids=[
        "no steps",
        "good",
        "all without targets",
        "ends without targets",
        "without targets between good ones",
        "not finite",
        "zero",
    ],
)
def test_tally_counts_steps_without_targets_not_finite_and_zero(
    steps: tuple[Step, ...], counts: tuple[int, int, int]
) -> None:
    assert tallied(*steps) == counts
    assert tallied(*steps, first=900) == counts


def test_tally_restarts_after_steps_that_were_not_read() -> None:
    tally = Tally()
    for number in (1, 2, 5, 6):
        tally.take(Step(step=number, loss=0.0, target_tokens=0))
    assert tally.no_target_steps == 2


@given(st.lists(st.sampled_from((NOTHING, WELL, ZERO, NAN, INF))))
def test_tally_never_exceeds_the_steps_of_each_kind(steps: list[Step]) -> None:
    without, not_finite, zero = tallied(*steps)
    assert without <= steps.count(NOTHING)
    assert not_finite == sum(1 for step in steps if step is NAN or step is INF)
    assert zero <= steps.count(ZERO)
