"""Looking into JSON that anybody may have written: what is not there, or is of another kind, is nothing. Pure."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


def mapping(value: Any, *keys: str) -> Json:
    """The mapping under these keys; empty where there is none."""
    found = value
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def rows(value: Any) -> tuple[Json, ...]:
    """The mappings of a list."""
    return tuple(row for row in value if isinstance(row, dict)) if isinstance(value, list) else ()


def texts(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def text(value: Any) -> str | None:
    """A string that says something."""
    return value if isinstance(value, str) and value else None


def whole(value: Any) -> int | None:
    """A whole number >= 0, also as the digits of a label."""
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def integer(value: Any) -> int | None:
    """A whole number of either sign: priorities may be negative."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: Any) -> int:
    return whole(value) or 0
