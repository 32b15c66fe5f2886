"""The clock. Everything else takes the time as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def today() -> str:
    """UTC date, YYYYMMDD."""
    return datetime.now(UTC).strftime("%Y%m%d")


def now() -> str:
    """UTC time, RFC 3339 with seconds and a Z, as Kubernetes writes its own."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def monotonic() -> float:
    """Seconds since some moment; only differences mean anything."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Between two looks at something that changes by itself."""
    time.sleep(max(0.0, seconds))
