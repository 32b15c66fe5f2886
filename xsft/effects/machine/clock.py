"""The clock. Everything else takes the time as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime

SAME_S = 5.0
"""Clocks that differ by less agree: a Date has whole seconds, and an answer takes its time."""


def utc() -> datetime:
    """What this machine's clock shows; it may be wrong."""
    return datetime.now(UTC)


def today() -> str:
    """UTC date, YYYYMMDD."""
    return utc().strftime("%Y%m%d")


def now() -> str:
    """UTC time, RFC 3339 with seconds and a Z, as Kubernetes writes its own."""
    return utc().strftime("%Y-%m-%dT%H:%M:%SZ")


def monotonic() -> float:
    """Seconds since some moment; only differences mean anything."""
    return time.monotonic()


def epoch() -> float:
    """Seconds since 1970, UTC."""
    return time.time()


def ahead_s(date: str | None) -> float:
    """How far the clock of who wrote this HTTP Date just now is ahead of ours; 0 where it is no date, or so little that
    the way here may have taken it.
    """
    from email.utils import parsedate_to_datetime

    try:
        ahead = (parsedate_to_datetime(date or "") - utc()).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return ahead if abs(ahead) > SAME_S else 0.0


def pause(seconds: float) -> None:
    """Between two looks at something that changes by itself."""
    time.sleep(max(0.0, seconds))
