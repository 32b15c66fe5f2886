"""Read values from arbitrary JSON: a value that is missing or of another type gives an empty result. And the types of
JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
JsonObject = dict[str, Any]
"""A parsed JSON or YAML mapping."""
JsonMapping = Mapping[str, Any]
"""The same, to be read only."""
Pause = Callable[[float], None]
"""Waits for the seconds, as `machine.clock.pause`."""
ShowLine = Callable[[str], None]
"""Shows one line to the user at once, e.g. the current step or the reason for a wait."""


def parse_json(text: str | bytes) -> Any:
    """Return the value; None for a text that is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a hostile text may be nested without end
        return None


def mapping(value: Any, *keys: str) -> JsonObject:
    """Return the mapping under these keys; empty if there is none."""
    node = value
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def rows(value: Any) -> tuple[JsonObject, ...]:
    """Return the mappings of a list."""
    return tuple(row for row in value if isinstance(row, dict)) if isinstance(value, list) else ()


def texts(value: Any) -> tuple[str, ...]:
    """Return the strings of a list."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def text(value: Any) -> str | None:
    """Return a string that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def object_name(json: JsonObject) -> str:
    """Return the name of an object of Kubernetes; `?` if it has none."""
    return text(mapping(json, "metadata").get("name")) or "?"


def whole(value: Any) -> int | None:
    """Return an integer >= 0, also from the digits of a label."""
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def integer(value: Any) -> int | None:
    """Return an integer of either sign: priorities may be negative."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: Any) -> int:
    return whole(value) or 0
