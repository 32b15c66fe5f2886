from __future__ import annotations

import pytest

from tests.observations import NOW, observed, said
from xsft.cluster.observation import Status
from xsft.runs.rows import Row, doubts, row_of, text_of, zero_loss


def row(reason: str = "", **counts: int) -> Row:
    return row_of(observed(progress=said(**counts)), Status(state="training", reason=reason), now=NOW)


@pytest.mark.parametrize(("steps", "ids"), [(0, []), (2, []), (3, ["loss-zero"])])
def test_a_loss_of_0_in_three_steps_is_a_warning(steps: int, ids: list[str]) -> None:
    warnings_of_row = zero_loss(row(zero_loss_steps=steps))
    assert [(problem.id, problem.severity, problem.where) for problem in warnings_of_row] == [
        (name, "warning", "gemma") for name in ids
    ]


def test_meaningless_losses_are_a_warning_in_compare() -> None:
    (problem,) = doubts(row("no-target-tokens", no_target_steps=40))
    assert (problem.id, problem.severity) == ("no-target-tokens", "warning")
    assert "40 steps in a row" in problem.message
    assert [problem.id for problem in doubts(row(zero_loss_steps=3))] == ["loss-zero"]
    assert doubts(row()) == ()


def test_the_text_of_a_warning_counts_the_steps() -> None:
    assert "3 steps in a row" in text_of(said(no_target_steps=3), "no-target-tokens")
    assert "NaN or infinite" in text_of(said(not_finite_steps=5), "loss-not-finite")
