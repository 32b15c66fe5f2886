"""The loss over the steps: a plot for the terminal, a picture for everything else."""

from __future__ import annotations

import io
import string
from collections.abc import Mapping, Sequence
from typing import Literal

Kind = Literal["png", "svg"]

WIDTH, HEIGHT = 76, 15
"""Characters; fits a terminal of 80 columns."""

MOST_TICKS = 7
"""Of the axis of steps."""

LARGEST = 1e30
"""Larger losses are left out: plotext@6.1 subtracts and scales them as doubles, and stops where that overflows."""


LETTERS = string.ascii_lowercase
"""One per run in a plot of several: told apart without colour."""


def terminal_plot(losses: Mapping[int, float], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Lines of plain text, without colour; empty for fewer than two losses that can be drawn."""
    points = _drawable(losses)
    return _plotted([(points, None)], width=width, height=height) if len(points) >= 2 else ""


def terminal_comparison(curves: Sequence[Mapping[int, float]], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Each run drawn with its letter, a, b, c, … in the order given; empty where none has a loss that can be drawn.
    Later runs are drawn over earlier ones. At most as many runs as LETTERS.
    """
    drawn = [(points, LETTERS[i]) for i, points in enumerate(map(_drawable, curves)) if points]
    return _plotted(drawn, width=width, height=height) if drawn else ""


def picture(losses: Mapping[int, float], *, title: str) -> bytes:
    """A PNG, 800 x 450 pixels."""
    return _picture({"": losses}, title=title)


def comparison_picture(curves: Mapping[str, Mapping[int, float]], *, kind: Kind = "png") -> bytes:
    """A PNG of 800 x 450 pixels or an SVG, with a legend of the names."""
    return _picture(curves, title="loss", kind=kind)


def _plotted(curves: Sequence[tuple[Mapping[int, float], str | None]], *, width: int, height: int) -> str:
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.title("loss")
    for points, marker in curves:
        figure.draw(figure.signal(list(points), list(points.values()), marker=marker).lines())
    figure.ruler("x").ticks(*_step_ticks({step for points, _ in curves for step in points}))
    text = plotext.uncolorize(figure.build().string())
    return "\n".join(line.rstrip() for line in text.splitlines())


def _step_ticks(steps: set[int]) -> tuple[list[int], list[str]]:
    """Whole steps, evenly apart, the first and the last among them, and their labels."""
    first, last = min(steps), max(steps)
    count = min(MOST_TICKS, last - first + 1)
    ticks = sorted({first + round(i * (last - first) / max(1, count - 1)) for i in range(count)})
    return ticks, [str(tick) for tick in ticks]


def _picture(curves: Mapping[str, Mapping[int, float]], *, title: str, kind: Kind = "png") -> bytes:
    """A curve without a name is not in the legend. The same losses make the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, losses in curves.items():
        points = _drawable(losses)
        marker = "." if len(points) <= 100 else ""
        axes.plot(list(points), list(points.values()), linewidth=1.5, marker=marker, label=name or None)
    axes.set(title=title, xlabel="step", ylabel="loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, alpha=0.3)
    if any(curves):
        axes.legend()
    content = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "xsft"}):
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()


def _drawable(losses: Mapping[int, float]) -> dict[int, float]:
    return {step: loss for step, loss in sorted(losses.items()) if abs(loss) < LARGEST}
