"""Times as text: UTC, ISO 8601, as Kubernetes, the logs and the records write them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def moment(text: str | None) -> datetime | None:
    """Return the time, or None if the text is not a time; without an offset it is UTC."""
    try:
        parsed = datetime.fromisoformat(text or "")
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):  # year 1 or 9999 with an offset
        return None


def seconds_between(earlier: str | None, later: str | None) -> float | None:
    """Return the difference in seconds; None if either is not a time; negative if the clocks disagree."""
    start, end = moment(earlier), moment(later)
    return (end - start).total_seconds() if start and end else None


def earliest(*texts: str | None) -> str | None:
    """Return the earliest of the texts that are times."""
    times = sorted((parsed, text) for text in texts if text and (parsed := moment(text)))
    return times[0][1] if times else None


def latest(*texts: str | None) -> str | None:
    times = sorted((parsed, text) for text in texts if text and (parsed := moment(text)))
    return times[-1][1] if times else None


def with_z(text: str) -> str:
    """Return the time in UTC with a Z, as Kubernetes writes it. Text that is not a time, or already has this form (with
    nanoseconds), is returned unchanged."""
    parsed = None if text.endswith("Z") else moment(text)
    return text if parsed is None else parsed.isoformat().removesuffix("+00:00") + "Z"


def before(now: str, seconds: float) -> str:
    """Return the time `seconds` before; UTC, RFC 3339 with a Z. Raises ValueError if `now` is not a time."""
    parsed = moment(now)
    if parsed is None:
        raise ValueError(f"{now!r} is not a valid time")
    try:
        return (parsed - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return "0001-01-01T00:00:00Z"
