"""The loss over the steps as a picture, by matplotlib; imported only if one is drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Literal

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator


def draw(curves: Mapping[str, Mapping[int, float]], *, title: str, kind: Literal["png", "svg"]) -> bytes:
    """Return a picture of 800 x 450 pixels. A curve without a name is not in the legend. The same losses give the same
    bytes."""

    figure = Figure(figsize=(8, 4.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, points in curves.items():
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
