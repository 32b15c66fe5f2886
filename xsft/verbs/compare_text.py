"""The losses of several runs, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xsft.runs.compare import RunComparison, differing_keys, resumptions
from xsft.runs.losses import LossCurve
from xsft.spec.keypath import printable
from xsft.verbs.failure import problem_documents
from xsft.verbs.loss_plot import LETTERS, terminal_comparison


def comparison_lines(curves: Sequence[LossCurve], *, target: Path | None) -> Iterator[str]:
    """Yield the plot, a line for each run, the differences of the runs, and the file of the picture."""
    if plot := terminal_comparison([one.points for one in curves]):
        yield plot
    yield from _legend(curves)
    yield from _differences(curves)
    if target:
        yield f"picture  {target}"


def _legend(curves: Sequence[LossCurve]) -> Iterator[str]:
    """Yield lines such as `a gemma 120 losses from metrics and log, steps 1 to 120, 6.675 -> 2.346, resumed from step
    40 (repeated)`."""
    width = max(len(one.run_name) for one in curves)
    for letter, one in zip(LETTERS, curves, strict=False):
        yield f"{letter}  {printable(one.run_name):<{width}}  {_curve_text(one)}"


def _differences(curves: Sequence[LossCurve]) -> Iterator[str]:
    """Yield a line for each key that differs: `b against a: train.learning_rate: 2e-05 -> 0.0001`."""
    for letter, one in zip(LETTERS[1:], curves[1:], strict=False):
        found = differing_keys(curves[0], one)
        nothing = "the same workload" if found == () else "no record, so differences are unknown"
        yield from (f"{letter} against a: {printable(line)}" for line in found or (nothing,))


def _curve_text(one: LossCurve) -> str:
    if not one.points:
        return "no loss could be read" if one.problems else "no loss yet"
    first, last = min(one.points), max(one.points)
    source = " and ".join(one.sources)
    span = f"steps {first} to {last}, {one.points[first]:.3f} -> {one.points[last]:.3f}"
    resumed = "".join(f", resumed from step {step}{f' ({order})' if order else ''}" for step, order in resumptions(one))
    return f"{len(one.points)} losses from {source}, {span}{resumed}"


def comparison_document(made: RunComparison, *, target: Path | None) -> dict[str, Any]:
    """Return the document `xsft.compare/1` without its schema."""
    return {
        "runs": [_curve_document(one, first=made.curves[0]) for one in made.curves],
        "plot": str(target) if target else None,
        "problems": problem_documents(made.problems),
    }


def _curve_document(one: LossCurve, *, first: LossCurve) -> dict[str, Any]:
    """Return the curve as JSON fields; losses that are not numbers are left out, because JSON has none."""
    differs = differing_keys(first, one)
    points = sorted((step, loss) for step, loss in one.points.items() if abs(loss) < float("inf"))
    return {
        "run_name": one.run_name,
        "sources": list(one.sources),
        "resumed": [{"step": step, "order": order} for step, order in resumptions(one)],
        "points": [{"step": step, "loss": loss} for step, loss in points],
        "unread": list(one.problems),
        "differs": None if differs is None else list(differs),
    }
