"""The clock. Everything else takes the time as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def today() -> str:
    """UTC date, YYYYMMDD."""
    return datetime.now(UTC).strftime("%Y%m%d")


def now() -> str:
    """UTC time, ISO 8601 with seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def monotonic() -> float:
    """Seconds since some moment; only differences mean anything."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Between two looks at something that changes by itself."""
    time.sleep(max(0.0, seconds))
