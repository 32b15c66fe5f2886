"""Find and change values in a manifest by path. Pure: changes are made on a copy.

A path is a tuple of keys; `NamedEntry("jax-tpu")` picks the list entry whose `name` is that, `Item("--a=1")` the equal
one. Its printed form is a JSON pointer (RFC 6901).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct


class NamedEntry(Struct, frozen=True):
    """The entry of a list whose `name` is this."""

    name: str


class Item(Struct, frozen=True):
    """The entry of a list that equals this text, e.g. a flag among `args`."""

    text: str


PointerKey = str | int | NamedEntry | Item
Pointer = tuple[PointerKey, ...]
JsonValue = Any
"""A value that json.loads returns."""


class MissingValue:
    """Marker that a path has no value."""

    def __repr__(self) -> str:
        return "(nothing)"


MISSING: Final = MissingValue()


def find_pointer(document: JsonValue, path: Pointer) -> tuple[str, JsonValue | MissingValue]:
    """Return the JSON pointer and the value there; the pointer is approximate if there is no value."""
    pointer = ""
    value = document
    for depth, key in enumerate(path):
        position = _position(value, key)
        if position is None:
            missing = "".join(f"/{escape_token(_label(key))}" for key in path[depth:])
            return pointer + missing, MISSING
        pointer += "/" + escape_token(str(position))
        value = value[position]
    return pointer, value


def put(document: JsonValue, path: Pointer, value: JsonValue) -> JsonValue:
    """Return a copy with `value` at `path`; missing mappings are made, a missing named entry is appended.

    Raises LookupError if a list has no such item or position, or another type of value is there: nothing is
    overwritten.
    """
    if not path:
        return value
    key, deeper = path[0], path[1:]
    match key:
        case str() if isinstance(document, Mapping | None):
            mapping = dict(document or {})
            mapping[key] = put(mapping.get(key), deeper, value)
            return mapping
        case NamedEntry() if isinstance(document, list | None):
            return _put_named(list(document or ()), key, deeper, value)
        case _:
            position = _position(document, key)
            if position is None:
                raise LookupError(f"{_label(key)} cannot be put into {type(document).__name__}")
            return [put(item, deeper, value) if i == position else item for i, item in enumerate(document)]


def remove(document: JsonValue, path: Pointer) -> JsonValue:
    """Return a copy without the value at `path`; a missing value is no error."""
    if find_pointer(document, path)[1] is MISSING:
        return document
    parent_path = path[:-1]
    last = path[-1]
    parent: JsonValue = find_pointer(document, parent_path)[1]
    position = _position(parent, last)
    if isinstance(parent, Mapping):
        remaining: JsonValue = {k: v for k, v in parent.items() if k != position}
    else:
        remaining = [v for i, v in enumerate(parent) if i != position]
    return put(document, parent_path, remaining)


def _put_named(items: list[JsonValue], key: NamedEntry, deeper: Pointer, value: JsonValue) -> list[JsonValue]:
    position = _position(items, key)
    if position is None:
        return [*items, put({"name": key.name} if deeper else None, deeper, value)]
    return [put(item, deeper, value) if i == position else item for i, item in enumerate(items)]


def _position(value: JsonValue, key: PointerKey) -> str | int | None:
    match key:
        case str():
            return key if isinstance(value, Mapping) and key in value else None
        case int():
            return key % len(value) if isinstance(value, list) and -len(value) <= key < len(value) else None
        case NamedEntry(name=name):
            if not isinstance(value, list):
                return None
            return next((i for i, v in enumerate(value) if isinstance(v, Mapping) and v.get("name") == name), None)
        case Item(text=text):
            return value.index(text) if isinstance(value, list) and text in value else None


def _label(key: PointerKey) -> str:
    match key:
        case NamedEntry(name=name):
            return name
        case Item():
            return "-"
        case str() | int():
            return str(key)


def escape_token(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
