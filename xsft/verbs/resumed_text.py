"""Text on how a run resumed, and which rows it reads since. Pure."""

from __future__ import annotations

from xsft.base.names import RowOrder

ORDERS = {
    "reshuffled": "its rows from the first one again, in another order",
    "repeated": "the same rows from the first one again, in the same order",
}


def resumed_text(step: int | None, order: RowOrder | None) -> str:
    """Return e.g. `resumed from step 10: its rows from the first again, in another order`; empty for a run that did not
    resume."""
    if step is None:
        return ""
    return f"resumed from step {step}" + (f": {ORDERS[order]}" if order else "")
