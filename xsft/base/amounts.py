"""Amounts as text: numbers of things, bytes, durations, and times as Kubernetes, the logs and the records write them.
Pure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def counted_text(count: int, word: str) -> str:
    """Return e.g. `1 file`, `1,200 files`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def size_text(size: float) -> str:
    """Return bytes as text of at most three digits: `63 kB`, `1.85 GB`; powers of 1000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def seconds_of(text: str) -> float:
    """Return the seconds of a duration. Raises ValueError if the text is not a duration."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration: write 90s, 10m, 2h, 1d or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def duration_text(seconds: float) -> str:
    """Return the seconds as a duration of at most two units, rounded down: `45s`, `12m`, `3h20m`, `5d`."""
    total = max(0, int(seconds))
    days, hours, minutes = total // 86400, total // 3600 % 24, total // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours and days < 10 else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if total >= 60:
        return f"{minutes}m{total % 60}s" if minutes < 10 and total % 60 else f"{minutes}m"
    return f"{total}s"


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
