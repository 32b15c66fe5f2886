"""The loss over the steps as a plot for the terminal."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import TextIO

from xsft.trainer.losses import drawable

WIDTH, HEIGHT = 76, 15
"""Size of a plot in characters; fits a terminal of 80 columns."""

MOST_TICKS, WIDE, FEW_TICKS = 7, 6, 5
"""Ticks of the axis of steps; fewer from `WIDE` digits on, where plotext drops labels that do not fit."""

LETTERS = string.ascii_lowercase
"""Letters of the runs in a plot of several: readable without colour."""


def terminal_plot(losses: Mapping[int, float], *, height: int = HEIGHT) -> str:
    """Return the plot as plain text without colour; empty for fewer than two losses that can be drawn."""
    points = drawable(losses)
    if len(points) < 2:
        return ""
    return _plot_curves([(points, None)], height=height)


def terminal_comparison(curves: Sequence[Mapping[int, float]]) -> str:
    """Return a plot with each run drawn by its letter, a, b, c, … in the order given; empty if no run has a loss that
    can be drawn. Later runs are drawn over earlier ones. At most as many runs as LETTERS."""
    drawn = [(points, LETTERS[i]) for i, points in enumerate(map(drawable, curves)) if points]
    return _plot_curves(drawn, height=HEIGHT) if drawn else ""


def drawable_text(text: str, stream: TextIO) -> str:
    """Return the text with question marks for the box characters that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _plot_curves(curves: Sequence[tuple[Mapping[int, float], str | None]], *, height: int) -> str:
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(WIDTH, height)
    figure.title("loss")
    for points, marker in curves:
        figure.draw(figure.signal(list(points), list(points.values()), marker=marker).lines())
    figure.ruler("x").ticks(*_step_ticks({step for points, _ in curves for step in points}))
    text = plotext.uncolorize(figure.build().string())
    return "\n".join(line.rstrip() for line in text.splitlines())


def _step_ticks(steps: set[int]) -> tuple[list[int], list[str]]:
    """Return whole steps, evenly apart, the first and the last among them, and their labels."""
    first, last = min(steps), max(steps)
    most = MOST_TICKS if len(str(last)) < WIDE else FEW_TICKS
    count = min(most, last - first + 1)
    ticks = sorted({first + round(i * (last - first) / max(1, count - 1)) for i in range(count)})
    return ticks, [str(tick) for tick in ticks]
