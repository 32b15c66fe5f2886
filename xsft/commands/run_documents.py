"""A run's row as JSON of the machine interface."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import asdict

from xsft.states.rows import Row


def run_document(row: Row) -> dict[str, Any]:
    """Return the row as JSON fields; a loss that is no number is null, for JSON has none, and the run's reason names
    it."""
    return {
        key: _plain(value)
        for key, value in {**asdict(row), "progress": asdict(row.progress), "tensorboard": row.tensorboard}.items()
    }


def finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else number


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case tuple():
            return list(value)
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case _:
            return value
