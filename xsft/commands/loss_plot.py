"""The loss over the steps: a plot for the terminal, a picture for everything else."""

from __future__ import annotations

import io
from collections.abc import Mapping

WIDTH, HEIGHT = 76, 15
"""Characters; fits a terminal of 80 columns."""

LARGEST = 1e30
"""Larger losses are left out: plotext@6.1 subtracts and scales them as doubles, and stops where that overflows."""


def terminal_plot(losses: Mapping[int, float], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Lines of plain text, without colour; empty for fewer than two losses that can be drawn."""
    import plotext

    points = _drawable(losses)
    if len(points) < 2:
        return ""
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    figure.title("loss")
    figure.draw(figure.signal(list(points), list(points.values())).lines())
    text = plotext.uncolorize(figure.build().string())
    return "\n".join(line.rstrip() for line in text.splitlines())


def picture(losses: Mapping[int, float], *, title: str) -> bytes:
    """A PNG, 800 x 450 pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    points = _drawable(losses)
    axes.plot(list(points), list(points.values()), linewidth=1.5, marker="." if len(points) <= 100 else "")
    axes.set(title=title, xlabel="step", ylabel="loss")
    axes.grid(visible=True, alpha=0.3)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def _drawable(losses: Mapping[int, float]) -> dict[int, float]:
    return {step: loss for step, loss in sorted(losses.items()) if abs(loss) < LARGEST}
