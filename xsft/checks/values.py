"""Read a key's value as MaxText would. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xsft.spec.base import Value

LARGEST = 1e15
"""Largest number accepted: products of a few such numbers are still finite, and whole ones exact in a double."""


def number(value: Value) -> float | None:
    """Return the number that YAML reads from the value, LARGEST at most; None if MaxText's types refuse it."""
    if isinstance(value, bool) or value is None or isinstance(value, list):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else max(-LARGEST, min(found, LARGEST))


def is_on(value: Value) -> bool:
    """Return whether a switch is on, written as a boolean, `true` or 1."""
    return value is True or str(value).lower() in ("true", "1", "on", "yes")


def same(left: Value, right: object) -> bool:
    """Return whether two values are equal after MaxText's command line: `True`, `true` and True are one value, and so
    are 1 and 1.0."""
    return left == right or str(left).lower() == str(right).lower()


def texts(value: Value) -> Iterator[str]:
    """Yield every string in a value."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item
