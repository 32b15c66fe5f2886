from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from xsft.verbs.card import HEIGHT, WIDTH, terminal_comparison, terminal_plot

FALLING = {step: 7.0 - step / 10 for step in range(1, 41)}


def test_a_plot_fits_a_terminal_and_falls_from_left_to_right() -> None:
    lines = terminal_plot(FALLING).splitlines()
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in "".join(lines)
    inside = [line for line in lines if "│" in line]
    assert len(inside[0].rstrip("│ ")) < len(inside[-1].rstrip("│ "))


def test_too_few_losses_give_no_plot() -> None:
    assert terminal_plot({}) == terminal_plot({1: 2.0}) == terminal_plot({1: 2.0, 2: float("nan")}) == ""


@settings(max_examples=20)
@example({1: -1.5e308, 2: 2.5e307})
@given(st.dictionaries(st.integers(1, 10**6), st.floats(), max_size=30))
def test_a_plot_is_drawn_for_any_losses(losses: dict[int, float]) -> None:
    assert len(terminal_plot(losses).splitlines()) <= HEIGHT


def test_each_of_several_runs_has_a_letter() -> None:
    text = terminal_comparison([FALLING, {}, dict.fromkeys(range(1, 41), 3.0)])
    assert len(text.splitlines()) <= HEIGHT
    inside = [line.split("│")[1] for line in text.splitlines() if line.count("│") == 2]
    assert "a" in inside[0]
    assert any("c" in line for line in text.splitlines())
    assert not any("b" in line for line in inside)
    assert terminal_comparison([{}, {1: float("nan")}]) == ""


@settings(max_examples=20)
@given(st.lists(st.dictionaries(st.integers(1, 10**6), st.floats(), max_size=10), max_size=26))
def test_a_comparison_is_drawn_for_any_losses(curves: list[dict[int, float]]) -> None:
    assert len(terminal_comparison(curves).splitlines()) <= HEIGHT


@given(st.integers(1, 10**6), st.integers(1, 60))
@example(1, 13)
@example(99991, 9)
@example(999991, 33)
@settings(max_examples=20)
def test_the_axis_of_steps_has_whole_numbers(first: int, more: int) -> None:
    """It showed step 7.5."""
    axis = terminal_plot({first: 2.0, first + more: 1.0}).splitlines()[-1].split()
    assert all(label.isdigit() for label in axis)
    assert {int(axis[0]), int(axis[-1])} == {first, first + more}
