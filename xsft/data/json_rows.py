"""Parses rows of JSON as strictly as pyarrow: a duplicate key and half a surrogate pair are rejected.

source: pyarrow@24 on `Column(/a) was specified twice` and `The surrogate pair in string is invalid`, as
tests/contract/test_rules.py sees them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from xsft.base.lenient import parse_json

BROKEN = object()
"""Value of a text that is not JSON."""


class UnfitRow(Struct, frozen=True):
    """A row that Python's JSON parser accepts, and pyarrow does not."""

    why: str
    """Completes "the row …"."""


class _KeyTwice(Exception):
    pass


def parse_row(text: bytes) -> Any:
    """Return the value of one line, BROKEN or an UnfitRow."""
    try:
        found = _DECODER.decode(text.decode())
    except _KeyTwice as twice:
        return UnfitRow(f"has the key {twice} twice")
    except ValueError:
        return BROKEN
    return UnfitRow("holds half a surrogate pair") if b"\\u" in text and _has_surrogates(found) else found


def parse_array(text: bytes) -> list[Any] | None:
    """Return the array; None if the text is not an array. datasets reads arrays with a parser that accepts what
    Python's does."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = parse_json(text)  # slow, and accepts more than JSON
    return found if isinstance(found, list) else None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        raise _KeyTwice(next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_without_duplicates)


def _has_surrogates(found: Any) -> bool:
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
