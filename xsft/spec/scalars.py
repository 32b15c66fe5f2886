"""Resolve plain YAML scalars by the YAML 1.2 core schema, and refuse what YAML 1.1 and 1.2 read differently. Pure.

source: YAML 1.2.2 §10.3.2 (core schema). `no`, `off`, `yes`, `on`, `12:30:00` and dates are text; `1e-5` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct

from xsft.base.secrets import looks_secret
from xsft.spec.keypath import shown_text

YamlScalar = str | int | float | bool | None

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_RADIX = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)")
_UNDERSCORES = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?")
_INT_LIMIT = 2**63
"""Bound of integers: JSON readers and MaxText's own parser hold 64-bit integers."""
_MAX_DIGITS = 20


class Surprise(Struct, frozen=True):
    """A scalar that YAML parsers read differently, or that no field can hold."""

    message: str
    fix: str


def resolve_plain(text: str) -> YamlScalar | Surprise:
    """Return the value of an unquoted scalar, e.g. `1e-5` -> 0.00001, `no` -> "no"."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    return _surprise(text) or _parse_number(text)


def _parse_number(text: str) -> YamlScalar | Surprise:
    if _INT.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS and abs(int(text)) < _INT_LIMIT else _too_big(text)
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    return value if isfinite(value) else _too_big(text)


def _surprise(text: str) -> Surprise | None:
    if _LEADING_ZERO.fullmatch(text):
        return Surprise(
            f"{quote_unless_secret(text)} starts with a zero: some YAML parsers read it as octal, others as decimal",
            f"Write {_plain_int(text)} for the number, or quote it for text: '{shown_text(text)}'.",
        )
    if _RADIX.fullmatch(text) or _UNDERSCORES.fullmatch(text):
        return Surprise(
            f"{quote_unless_secret(text)} is a number for some YAML parsers and text for others",
            f"Write the number in plain decimal digits, or quote it for text: '{shown_text(text)}'.",
        )
    if _NOT_FINITE.fullmatch(text):
        fix = f"Give a finite number, or quote it for text: '{shown_text(text)}'."
        return Surprise(f"{quote_unless_secret(text)} is not a finite number", fix)
    return None


def _plain_int(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    return shown_text(sign + (text.lstrip("+-0") or "0"))


def quote_unless_secret(text: str) -> str:
    return "a value (not shown: it looks like a secret)" if looks_secret(text) else f"`{shown_text(text)}`"


def _too_big(text: str) -> Surprise:
    fix = f"Give a smaller number, or quote it for text: '{shown_text(text)}'."
    return Surprise(f"{quote_unless_secret(text)} is too large for a number", fix)


def same_value(a: Any, b: Any) -> bool:
    """Return whether two values of workloads or manifests are equal: 1 is 1.0, and neither is true, which Python calls
    equal."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b)
