"""The least time of a run's steps: as a part of documents, and as text. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from xsft.base.amounts import counted_text, duration_text
from xsft.checks.step_time import RunTime
from xsft.verbs.document import Document


class RunTimeDocument(Document, frozen=True, kw_only=True):
    """Minimum time of a run's steps on its TPUs, by arithmetic; real steps take longer."""

    steps: int
    step_time_bound_s: float
    """Minimum time of a step, in seconds."""
    bound_by: Literal["arithmetic"]
    """The matrix multiplications with the model's weights, at the chips' full rate."""
    resources_s: dict[str, float]
    """Seconds by `bound_by`."""
    compiled: bool
    """Always false: the compiled program is not counted."""
    tokens_per_second_bound: float
    """Per device, at most, padding included."""
    mfu_bound: float | None
    """Always null: arithmetic alone is the whole of its own time."""
    chip_hours_bound: float
    cost_bound: float | None
    """Minimum cost, by the place's `chip_hour_price`; null without a price."""
    measured_over_bound: tuple[float, ...]
    """Measured step time over the minimum; empty for steps shorter than published ones."""
    measured_by: Literal["own", "published"]
    """`own`: runs of this model on this TPU type that were submitted from this machine and have a receipt."""


def time_document(time: RunTime) -> RunTimeDocument:
    return RunTimeDocument(
        steps=time.steps,
        step_time_bound_s=time.step_s,
        bound_by="arithmetic",
        resources_s={"arithmetic": time.step_s},
        compiled=False,
        tokens_per_second_bound=time.tokens_per_second,
        mfu_bound=None,
        chip_hours_bound=time.chip_hours,
        cost_bound=time.cost,
        measured_over_bound=time.ratios,
        measured_by="own" if time.own else "published",
    )


def time_text(time: RunTime) -> str:
    """Return the least time of the steps, what it costs, and the time at the pace of your runs or of published ones."""
    least = "under a second"
    if time.seconds >= 1:
        least = f"at least {duration_text(time.seconds)}"
    cost = f" and {time.cost:,.2f} at {time.price:g} per chip-hour" if time.cost is not None else ""
    bound = (
        f"{least} of arithmetic for {counted_text(time.steps, 'step')} ({time.step_s:.3g} s each), "
        f"{_amount(time.chip_hours)} chip-hours{cost}"
    )
    if not time.ratios:
        return f"{bound}; steps this short take several times that"
    runs = counted_text(len(time.ratios), "published run")
    if time.own:
        runs = f"{len(time.ratios)} of your runs of this model"
    ratios = _range_text(f"{ratio:.1f}" for ratio in time.ratios)
    durations = _range_text(duration_text(time.seconds * ratio) for ratio in time.ratios)
    return f"{bound}; {runs} took {ratios} times that, here {durations}"


def _range_text(amounts: Iterable[str]) -> str:
    """Return the first and the last of ascending amounts as text; one of them if both read the same."""
    texts = tuple(amounts)
    return " to ".join(dict.fromkeys((texts[0], texts[-1])))


def _amount(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"
