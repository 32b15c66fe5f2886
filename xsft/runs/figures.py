"""Figures by matplotlib; imported only if one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator


def draw_figure(draw: Callable[[Any], None], *, kind: str, whole_steps: bool = False) -> bytes:
    """Return the picture of 800 x 450 pixels that `draw` draws on its axes. The same drawing gives the same bytes."""
    figure = Figure(figsize=(8, 4.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw(axes)
    if whole_steps:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    content = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "xsft"}):
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()
