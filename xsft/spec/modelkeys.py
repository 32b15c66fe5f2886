"""The keys that a pydantic model allows, read from its annotations: for did-you-mean. Pure."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel


class LocatedError(Struct, frozen=True, kw_only=True):
    """A pydantic error's location, split into keys of the file and labels of union members."""

    path: tuple[str | int, ...]
    unions: tuple[tuple[int, str], ...]
    """For each union passed: the length of the path there, and the member's label."""
    parent: Any
    """Annotation of the parent of the last key; None if unknown."""
    annotation: Any
    """Annotation of the value itself; None if unknown."""
    is_key: bool
    """Whether the key is wrong, not its value."""


def locate(model: type[BaseModel], loc: Sequence[str | int], data: object) -> LocatedError:
    """Return the location without labels: pydantic puts the class name or tag of a union's member into it, and those
    are not keys of the file."""
    path: list[str | int] = []
    unions: list[tuple[int, str]] = []
    annotation: Any = model
    parent: Any = None
    value = data
    is_key = bool(loc) and loc[-1] == "[key]"
    keys = loc[:-1] if is_key else loc
    for part in keys:
        if annotation is not None and len(options := members(annotation)) > 1:
            unions.append((len(path), str(part)))
            annotation = _member(options, str(part))
        else:
            path.append(part)
            parent, annotation, value = annotation, child(annotation, part), _item(value, part)
    return LocatedError(path=tuple(path), unions=tuple(unions), parent=parent, annotation=annotation, is_key=is_key)


def keys_of(annotation: Any) -> tuple[str, ...]:
    """Return the keys of a model, or of every model of a union."""
    return tuple(dict.fromkeys(key for member in members(annotation) for key in _fields_by_key(member)))


def paths_to(model: type[BaseModel], key: str) -> tuple[str, ...]:
    """Return the dotted paths of every section where the model has this key, e.g. `steps` -> `train.steps`."""
    return tuple(dict.fromkeys(p for p in _paths_of(model) if p.rpartition(".")[2] == key))


def options_of(annotation: Any) -> tuple[str, ...]:
    """Return every value of the Literals in an annotation, as text."""
    return tuple(dict.fromkeys(str(o) for member in members(annotation) for o in _closed_set(member)))


def members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union without None, one level deep, as pydantic labels them; anything else is its only
    member."""
    plain = _unwrap(annotation)
    if get_origin(plain) not in (Union, types.UnionType):
        return (plain,)
    inner = tuple(a for a in get_args(plain) if a is not type(None))
    return members(inner[0]) if len(inner) == 1 else inner


def child(annotation: Any, part: str | int) -> Any:
    """Return the annotation of one key or index; None if there is none."""
    options = members(annotation)
    plain = _unwrap(options[0])
    if len(options) > 1:
        return None
    return get_args(plain)[-1] if get_origin(plain) in (dict, list) else _fields_by_key(plain).get(str(part))


def _fields_by_key(annotation: Any) -> dict[str, Any]:
    plain = _unwrap(annotation)
    if not _is_model(plain):
        return {}
    return {name: Annotated[field.annotation, field] for name, field in plain.model_fields.items()}


@cache
def _paths_of(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(_all_paths(model, ""))


def _all_paths(annotation: Any, above: str) -> Iterator[str]:
    for member in members(annotation):
        for key, field in _fields_by_key(member).items():
            path = f"{above}.{key}" if above else key
            yield path
            yield from _all_paths(field, path)


def _member(options: Sequence[Any], label: str) -> Any:
    """Return the member that pydantic's label means: a class by its name, a container by its origin."""
    for option in options:
        plain = _unwrap(option)
        origin = getattr(get_origin(plain), "__name__", "")
        if origin and label.startswith(f"{origin}["):
            return plain
        if getattr(plain, "__name__", "") == label:
            return plain
    return None


def _closed_set(annotation: Any) -> tuple[object, ...]:
    plain = _unwrap(annotation)
    return get_args(plain) if get_origin(plain) is Literal else ()


def _unwrap(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel)


def _item(value: object, part: str | int) -> object:
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None
