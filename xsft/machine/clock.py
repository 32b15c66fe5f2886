"""The clock. All other modules take the time as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

SAME_S = 5.0
"""Clocks that differ by less count as equal: a Date has whole seconds, and an answer takes time to arrive."""


def utc() -> datetime:
    """Return this machine's time; it may be wrong."""
    return datetime.now(UTC)


def today() -> str:
    """Return the UTC date, YYYYMMDD."""
    return utc().strftime("%Y%m%d")


def now() -> str:
    """Return the UTC time, RFC 3339 with seconds and a Z, as Kubernetes writes its own."""
    return utc().strftime("%Y-%m-%dT%H:%M:%SZ")


def monotonic() -> float:
    """Return seconds since an unspecified start; only differences mean anything."""
    return time.monotonic()


def epoch() -> float:
    """Return seconds since 1970, UTC."""
    return time.time()


def ahead_s(date: str | None) -> float:
    """Return how many seconds the clock of the server that just sent this HTTP Date is ahead of this machine's; 0 if it
    is not a date, or if the difference may be only the time in transit.
    """
    try:
        ahead = (parsedate_to_datetime(date or "") - utc()).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return ahead if abs(ahead) > SAME_S else 0.0


def pause(seconds: float) -> None:
    """Wait between two reads of something that changes by itself."""
    time.sleep(max(0.0, seconds))
