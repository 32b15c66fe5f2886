"""What cancelling a run would lose, and whether there is anything to cancel. Pure."""

from __future__ import annotations

from msgspec import Struct

from xsft.states.rows import Row

DOES_STEPS = ("training", "saving", "stalled", "unknown", "evicted")
"""States that a run may be in after days of steps: silence about them is no proof that there were none."""


class Loss(Struct, frozen=True, kw_only=True):
    step: int | None
    saved_step: int | None
    steps: int | None
    """Done since the last checkpoint; None where that is not known."""
    why: str
    """Why it is not known; empty where it is."""
    chips: int | None
    """That are freed; None where the TPU type is not known."""


def loss_of(row: Row) -> Loss:
    """A run that waits, or whose trainer has not begun, has done nothing since its last checkpoint."""
    said = row.progress
    why = "" if said.read else (said.why or "nothing of it was read")
    holds_none = row.state in ("queued", "evicted")
    if not said.read and (row.state == "queued" or (row.state == "starting" and row.reason != "pods-replaced")):
        return Loss(step=None, saved_step=None, steps=0, why="", chips=0 if holds_none else row.chips)
    if said.read and row.state in DOES_STEPS and row.step is None:
        why = "it printed no step that xsft knows"
    steps = None if why else _since(row.step, said.saved_step)
    chips = 0 if holds_none else row.chips
    return Loss(step=row.step, saved_step=said.saved_step, steps=steps, why=why, chips=chips)


def loss_text(loss: Loss) -> str:
    """One line."""
    if loss.steps is None:
        return f"what it would lose is not known: its progress was not read ({loss.why})"
    if loss.step is None:
        return "it has done no step yet: nothing would be lost"
    if loss.saved_step is None:
        return f"no checkpoint of it was seen: all of its {loss.step} steps would be lost, as far as is known"
    if not loss.steps:
        return f"its checkpoint of step {loss.saved_step} is its last step: nothing would be lost"
    return (
        f"{loss.steps} steps since the checkpoint of step {loss.saved_step} would be lost (it is at step {loss.step})"
    )


def _since(step: int | None, saved_step: int | None) -> int:
    """A run that resumed has printed no step yet where the step is None."""
    return max(0, (step or 0) - (saved_step or 0))
