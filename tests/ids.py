"""Ids of parametrized tests: where pytest would number a value (`argv0`), its content is the id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType

import msgspec
import pytest

LONGEST = 60
"""Characters of one value in an id."""


def pytest_make_parametrize_id(val: object, argname: str) -> str:
    """Return `val` in words, escaped and shortened; refuse a value that needs an id of its own."""
    text = " ".join(_words(val))
    if " at 0x" in text or (len(text) > LONGEST and type(val).__module__.startswith("xsft")):
        raise pytest.UsageError(f"no readable id for {argname}={text}; use pytest.param(…, id=…) or ids=[…]")
    if not text.strip():
        return repr(text) if text else "empty"
    short = text if len(text) <= LONGEST else f"{text[:40]}...{text[-17:]}"
    return short.encode("unicode_escape").decode("ascii")


def _words(value: object) -> Iterator[str]:
    match value:
        case bytes():
            yield value.decode("latin-1")
        case Mapping():
            yield from (f"{key}={' '.join(_words(part))}" for key, part in value.items())
        case set() | frozenset():
            yield from sorted(" ".join(_words(part)) for part in value)
        case tuple() | list():
            yield from (word for part in value for word in _words(part))
        case msgspec.Struct():
            yield from _words(_changed(value))
        case BaseException():
            yield f"{type(value).__name__}: {value}"
        case type() | FunctionType() | BuiltinFunctionType() if value.__name__ != "<lambda>":
            yield value.__name__
        case _:
            yield str(value)


def _changed(value: msgspec.Struct) -> dict[str, object]:
    """Return the fields that differ from their defaults."""
    names = value.__struct_fields__
    defaults = dict(zip(reversed(names), reversed(value.__struct_defaults__), strict=False))
    fields = {name: getattr(value, name) for name in names}
    return {name: now for name, now in fields.items() if now != defaults.get(name, msgspec.UNSET)}
