"""A run's row as JSON of the machine interface."""

from __future__ import annotations

import math
from typing import Any

from msgspec import to_builtins

from xsft.states.rows import Row


def run_document(row: Row) -> dict[str, Any]:
    """Return the row as JSON fields; a loss that is not a number is null, because JSON has none; the run's reason names
    it."""
    return {key: finite(value) if isinstance(value, float) else value for key, value in to_builtins(row).items()}


def finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number
