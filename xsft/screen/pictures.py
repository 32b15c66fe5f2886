"""Pictures by matplotlib, of losses and of the lengths of examples; imported only if one is drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Literal

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from xsft.dataset.summary import Summary


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


def lengths_picture(summary: Summary, *, limit: int, title: str) -> bytes:
    """Return a PNG of 800 x 450 pixels: examples by their tokens, and the length at which MaxText cuts."""
    figure = Figure(figsize=(8, 4.5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    width = summary.histogram[0][0] if summary.histogram else 1
    edges = [to - width for to, _count in summary.histogram]
    axes.bar(edges, [count for _to, count in summary.histogram], width=width, align="edge", edgecolor="white")
    if edges and limit <= edges[-1] + width:
        axes.axvline(limit, color="tab:red", label=f"max_target_length {limit}")
        axes.legend()
    which = f"all {summary.sampled:,} rows" if summary.everything else f"the first {summary.sampled:,} rows"
    axes.set(title=f"{title}, {which}", xlabel="tokens before the cut", ylabel="examples")
    axes.grid(visible=True, axis="y", alpha=0.3)
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()
