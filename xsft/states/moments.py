"""Times as text: UTC, ISO 8601, as Kubernetes, the logs and the records write them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


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


def with_z(text: str) -> str:
    """The same time in the one form that is shown: UTC with a Z, as Kubernetes writes it. What is no time stays as it
    is, and so does what has the form already, its nanoseconds included.
    """
    found = None if text.endswith("Z") else moment(text)
    return text if found is None else found.isoformat().removesuffix("+00:00") + "Z"


def before(now: str, seconds: float) -> str:
    """So many seconds before; UTC, RFC 3339 with a Z. Raises ValueError where `now` is no time."""
    found = moment(now)
    if found is None:
        raise ValueError(f"{now!r} is no time")
    try:
        return (found - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return "0001-01-01T00:00:00Z"
