"""Read a document with pydantic, leaving out invalid values and listing them. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from xsft.records.record import AttemptFacts, Record

T = TypeVar("T")

MAX_REPAIRS = 50


def lenient(kind: type[T], document: dict[str, Any]) -> tuple[T, tuple[str, ...]]:
    """Return the value, and the key paths that were left out because they were invalid."""
    document = copy.deepcopy(document)
    unread: list[str] = []
    for _ in range(MAX_REPAIRS):
        try:
            return _type_adapters()[kind.__name__].validate_python(document), tuple(dict.fromkeys(unread))
        except ValidationError as invalid:
            worst = invalid.errors()[-1]  # remove the last one first, so that earlier indices stay valid
            path = worst["loc"][:-1] if worst["type"] == "missing" else worst["loc"]
            _leave_out(document, path)
            unread.append(".".join(map(str, path)))
    raise ValueError("too many of its values are invalid")


@cache
def _type_adapters() -> dict[str, Any]:
    return {kind.__name__: TypeAdapter(kind) for kind in (Record, AttemptFacts)}


def _leave_out(document: dict[str, Any], path: tuple[int | str, ...]) -> None:
    """Remove the deepest existing part of `path`; pydantic's paths may end in words of its own."""
    node: Any = document
    for key, below in zip(path, (*path[1:], None), strict=False):
        inner = _child_at(node, key)
        if below is None or _child_at(inner, below) is None:
            if inner is None:
                break
            del node[key]
            return
        node = inner
    raise ValueError(f"{'.'.join(map(str, path)) or 'a required key'} is missing")


def _child_at(node: Any, key: int | str) -> Any:
    """Return the child; None also for a null value."""
    if isinstance(node, Mapping):
        return node.get(key)
    inside = isinstance(node, list) and isinstance(key, int) and key < len(node)
    return node[key] if inside else None
