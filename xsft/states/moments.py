"""Times as text: UTC, ISO 8601, as Kubernetes, the logs and the records write them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str | None) -> datetime | None:
    """None for what is no time; a time without an offset is UTC."""
    try:
        found = datetime.fromisoformat(text or "")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # year 1 or 9999 with an offset
        return None


def seconds_between(earlier: str | None, later: str | None) -> float | None:
    """None where either is no time; negative where the clocks disagree."""
    start, end = moment(earlier), moment(later)
    return (end - start).total_seconds() if start and end else None


def earliest(*texts: str | None) -> str | None:
    """The first of those that are times."""
    times = sorted((found, text) for text in texts if text and (found := moment(text)))
    return times[0][1] if times else None


def latest(*texts: str | None) -> str | None:
    times = sorted((found, text) for text in texts if text and (found := moment(text)))
    return times[-1][1] if times else None
