"""Detect runs that learn nothing: steps without a target token, and losses that are not numbers. Pure.

MaxText continues and exits with 0 if every target token is cut off (`total_weights: 0`), and after a loss of NaN if it
is configured not to abort.
"""

from __future__ import annotations

from typing import Literal, TypeGuard, get_args

from xsft.base.problems import Problem, warning
from xsft.runs.rows import ProgressRead, Row
from xsft.trainer.progress import Progress

ENOUGH = 3
"""Minimum number of such steps: one or two may be an unusual batch. If a run has fewer steps, all of them."""

Worthless = Literal["no-target-tokens", "loss-not-finite"]
"""Reason for which a run has failed, whatever its exit status; a running one will fail."""


def is_worthless(reason: str | None) -> TypeGuard[Worthless]:
    """Return whether it is such a reason."""
    return reason in get_args(Worthless)


def worthless(progress: Progress | None, *, asked: int | None) -> Worthless | None:
    """Return such a reason; None if nothing shows one. `asked`: requested steps."""
    if progress is None:
        return None
    least = min(ENOUGH, _all_of_them(progress, asked) or ENOUGH)
    if progress.no_target_steps >= least:
        return "no-target-tokens"
    return "loss-not-finite" if progress.not_finite_steps >= least else None


def text_of(progress: Progress | ProgressRead, reason: Worthless) -> str:
    """Return the explanation, one clause."""
    match reason:
        case "no-target-tokens":
            count = progress.no_target_steps
            return f"{count} steps in a row had no target token (total_weights: 0) and taught the model nothing"
        case "loss-not-finite":
            count = progress.not_finite_steps
            return f"the loss of {count} steps was NaN or infinite, and MaxText was configured to continue"


def doubts(row: Row) -> tuple[Problem, ...]:
    """Return warnings if the run's losses are not comparable."""
    if not is_worthless(row.reason):
        return zero_loss(row)
    fix = f"Omit it from the comparison; see xsft why {row.run_name}."
    return (
        warning(row.reason, row.run_name, f"Its losses are not comparable: {text_of(row.progress, row.reason)}.", fix),
    )


def zero_loss(row: Row) -> tuple[Problem, ...]:
    """Return a warning if the loss is 0.000 repeatedly although the steps have target tokens."""
    steps = row.progress.zero_loss_steps
    return (zero_loss_warning(row.run_name, steps),) if steps >= ENOUGH else ()


def zero_loss_warning(run_name: str, steps: int) -> Problem:
    message = f"The loss was printed as 0.000 at {steps} steps in a row, although they had target tokens."
    fix = "Check the data: a loss of zero is usual if rows repeat, or contain no answer."
    return warning("loss-zero", run_name, message, fix)


def _all_of_them(progress: Progress, asked: int | None) -> int:
    """Return the steps of this process if it has completed its last step; else 0."""
    over = progress.data_ended or progress.phase == "ended" or (asked is not None and (progress.step or 0) >= asked)
    return (
        max(0, (progress.step or 0) - (progress.resumed_from or 0)) if over else 0
    )  # 0 if it resumed from the last checkpoint
