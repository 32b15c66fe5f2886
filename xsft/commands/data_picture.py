"""A picture of the lengths of examples."""

from __future__ import annotations

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from xsft.dataset.summary import Summary


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
