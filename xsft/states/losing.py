"""Compute what cancelling a run would lose. A value that was not read is unknown, never zero. Pure."""

from __future__ import annotations

from msgspec import Struct

from xsft.states.rows import Row

DOES_STEPS = ("training", "saving", "stalled", "unknown", "evicted")
"""States in which a run may have trained for days, even if its log shows no step."""


class SavedSteps(Struct, frozen=True, kw_only=True):
    """The checkpoints in a run's output, as read for this purpose."""

    step: int | None = None
    """Step of the latest complete checkpoint; None if there is none, or if they were not read."""
    why: str = ""
    """Why they were not read; empty if they were."""


class Loss(Struct, frozen=True, kw_only=True):
    step: int | None
    saved_step: int | None
    """Step of the last checkpoint; None if there is none, or if unknown."""
    steps: int | None
    """Steps since the last checkpoint; None if unknown."""
    why: str
    """Why the loss is unknown; empty if it is known."""
    chips: int | None
    """Chips that become free; None if the TPU type is unknown."""


def may_lose(row: Row) -> bool:
    """Return whether checkpoints matter: a run that waits or has not started its trainer has done no step since."""
    if row.stage == "serve":
        return False
    return row.state in DOES_STEPS or row.step is not None


def loss_of(row: Row, saved: SavedSteps) -> Loss:
    """Return the loss. `saved` is used only if `may_lose`."""
    chips = 0 if row.state in ("queued", "evicted") else row.chips
    if not may_lose(row):
        return Loss(step=None, saved_step=saved.step, steps=0, why="", chips=chips)
    latest = _latest(row, saved)
    why = _why_loss_unknown(row, saved, latest)
    steps = None if why else max(0, (row.step or 0) - (latest or 0))
    return Loss(step=row.step, saved_step=latest, steps=steps, why=why, chips=chips)


def loss_text(loss: Loss) -> str:
    """The text, one line."""
    if loss.steps is None:
        kept = f" (latest checkpoint: step {loss.saved_step})" if loss.saved_step is not None else ""
        return f"how many steps would be lost is unknown: {loss.why}{kept}"
    if loss.step is None:
        return "it has completed no step yet; nothing would be lost"
    if loss.saved_step is None:
        return f"it has no checkpoint: all of its {loss.step} steps would be lost"
    if not loss.steps:
        return f"its checkpoint of step {loss.saved_step} is its last step: nothing would be lost"
    return (
        f"{loss.steps} steps since the checkpoint of step {loss.saved_step} would be lost (it is at step {loss.step})"
    )


def _latest(row: Row, saved: SavedSteps) -> int | None:
    """Return the latest step by the checkpoints and by the trainer's log: either may have been read a moment
    earlier.
    """
    known = (saved.step, row.progress.saved_step, row.progress.resumed_from)
    return max((step for step in known if step is not None), default=None)


def _why_loss_unknown(row: Row, saved: SavedSteps, latest: int | None) -> str:
    """Return why the loss is unknown; empty if it is known."""
    progress = row.progress
    if not progress.read:
        return f"its progress was not read ({progress.why or 'unknown reason'})"
    if row.step is None and row.state in DOES_STEPS:
        return "it printed no step that xsft recognises"
    if progress.source != "log":
        return f"its log was not read, and its {progress.source} (up to step {row.step}) may be older"
    if latest is None and saved.why:
        return f"it is at step {row.step}, and its checkpoints were not read ({saved.why})"
    return ""
