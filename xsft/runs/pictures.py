"""Pictures of losses and of the lengths of examples, by matplotlib, which is imported only if one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from xsft.data.findings import Summary
from xsft.trainer.progress import drawable

PictureFormat = Literal["png", "svg"]


def loss_picture(losses: Mapping[int, float], *, title: str) -> bytes:
    """Return a PNG of 800 x 450 pixels."""
    return _draw_losses({"": losses}, title=title, kind="png")


def comparison_picture(curves: Mapping[str, Mapping[int, float]], *, kind: PictureFormat = "png") -> bytes:
    """Return a PNG of 800 x 450 pixels or an SVG, with a legend of the names."""
    return _draw_losses(curves, title="loss", kind=kind)


def _draw_losses(curves: Mapping[str, Mapping[int, float]], *, title: str, kind: PictureFormat) -> bytes:
    """Return the picture. A curve without a name is not in the legend."""

    def draw(axes: Any) -> None:
        for name, losses in curves.items():
            points = drawable(losses)
            marker = "." if len(points) <= 100 else ""
            axes.plot(list(points), list(points.values()), linewidth=1.5, marker=marker, label=name or None)
        axes.set(title=title, xlabel="step", ylabel="loss")
        axes.grid(visible=True, alpha=0.3)
        if any(curves):
            axes.legend()

    return draw_figure(draw, kind=kind, whole_steps=True)


def lengths_picture(summary: Summary, *, limit: int, title: str) -> bytes:
    """Return a PNG of 800 x 450 pixels: examples by their tokens, and the length at which MaxText cuts."""
    width = summary.histogram[0][0] if summary.histogram else 1
    edges = [to - width for to, _count in summary.histogram]

    def draw(axes: Any) -> None:
        axes.bar(edges, [count for _to, count in summary.histogram], width=width, align="edge", edgecolor="white")
        if edges and limit <= edges[-1] + width:
            axes.axvline(limit, color="tab:red", label=f"max_target_length {limit}")
            axes.legend()
        which = f"all {summary.sampled:,} rows" if summary.everything else f"the first {summary.sampled:,} rows"
        axes.set(title=f"{title}, {which}", xlabel="tokens before the cut", ylabel="examples")
        axes.grid(visible=True, axis="y", alpha=0.3)

    return draw_figure(draw, kind="png")


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
