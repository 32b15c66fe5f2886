"""Any value of a record's types, every field set to anything that its type allows."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

T = TypeVar("T")

text = st.text("abcdefghij /:.-é", max_size=8)
"""Nothing that is scrubbed as a secret."""
scalars = st.booleans() | st.integers(-5, 5) | text
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(text, scalars, max_size=2)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: text,
    int: st.integers(0, 9),
    float: st.floats(0, 9),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    NoneType: st.none(),
    Any: values,
    object: values,
}


def any_of(kind: type[T], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Values of a dataclass or a struct; `fixed`: what some of its fields take."""
    hints = get_type_hints(kind)
    names = getattr(kind, "__struct_fields__", None) or [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return st.builds(kind, **{name: fixed[name] if name in fixed else _of(hints[name]) for name in names})


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in PLAIN:
        return PLAIN[hint]
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inside)
    if origin in (Union, UnionType):
        return st.one_of(*map(_of, inside))
    if origin is tuple:
        return st.lists(_of(inside[0]), max_size=2).map(tuple)
    if is_dataclass(hint) or hasattr(hint, "__struct_fields__"):
        return any_of(hint)
    return st.dictionaries(_of(inside[0]), _of(inside[1]), max_size=2)
