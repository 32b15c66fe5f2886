"""Numbers of things, bytes and durations as text. Pure."""

from __future__ import annotations

import re

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
