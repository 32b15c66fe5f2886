"""Evaluate shell arithmetic such as `$((1 - USE_PATHWAYS))`: integers, names and `${N:-0}` with + and -. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<number>[0-9]{1,18})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\$(?P<dollar>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$\{(?P<brace>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[0-9]{1,18}))?\})\s*"
)
"""`${NAME:-N}` is in the seed that xsft's own command increments at a restart."""


def evaluate(source: str, variables: Mapping[str, str]) -> int:
    """Return the sum. Raises KeyError for a variable that is not set, ValueError for an unsupported expression."""
    total = 0
    position = 0
    while position < len(source) or not position:
        term = _TERM.match(source, position)
        if term is None or (position and not term["sign"]):
            raise ValueError(source)
        number = term["number"] or _value_of(term, variables)
        if not _INTEGER.fullmatch(number):
            raise ValueError(source)
        total += -int(number) if term["sign"] == "-" else int(number)
        position = term.end()
    return total


def _value_of(term: re.Match[str], variables: Mapping[str, str]) -> str:
    name = term["name"] or term["dollar"] or term["brace"]
    if term["default"]:
        return variables.get(name) or term["default"]
    return variables[name]
