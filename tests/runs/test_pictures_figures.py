from __future__ import annotations

from typing import Any

from xsft.runs.pictures import draw_figure


def falling(axes: Any) -> None:
    axes.plot([1, 2, 3], [60, 50, 40], label="loss $x_{")
    axes.set(xlabel="step")


def test_the_same_drawing_gives_the_same_bytes() -> None:
    for kind in ("svg", "png"):
        assert draw_figure(falling, kind=kind) == draw_figure(falling, kind=kind)
    assert b"<dc:date>" not in draw_figure(falling, kind="svg")


def test_words_of_an_svg_are_text() -> None:
    assert b">step</text>" in draw_figure(falling, kind="svg")


def test_only_whole_steps_have_a_tick() -> None:
    drawn = [draw_figure(falling, kind="svg", whole_steps=whole_steps) for whole_steps in (False, True)]
    assert [b">1.25</text>" in content for content in drawn] == [True, False]
