"""Kinds of values in rows of JSON: datasets infers each column's type from the first rows, and casts later files. Pure.

source: datasets@5.2.0 packaged_modules/json/json.py, table.py [array_cast]; tests/contract/test_kinds.py asks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xsft.data.facts import JsonKind, RetypedColumn, SampledRow

_KINDS: Mapping[type, JsonKind] = {
    type(None): "null",
    int: "int",
    float: "float",
    bool: "bool",
    str: "text",
    list: "list",
}
_CAST: Mapping[JsonKind, frozenset[JsonKind]] = {
    "null": frozenset(("null",)),
    "int": frozenset(("null", "int", "bool")),
    "float": frozenset(("null", "int", "float", "bool")),
    "bool": frozenset(("null", "int", "float", "bool", "text")),  # the texts that it accepts are not judged
    "text": frozenset(("null", "int", "float", "bool", "text", "object")),
    "list": frozenset(("null", "list")),
    "object": frozenset(("null", "object")),
}
"""Kind inferred from the first rows -> kinds that are cast to it."""


def clash_in(rows: Sequence[SampledRow]) -> RetypedColumn | None:
    """Return `retyped` for the rows from which types are inferred and the rows that are cast to them."""
    return find_retyped_column(
        [row.row for row in rows if row.keys != "cast"], [row.row for row in rows if row.keys == "cast"]
    )


def find_retyped_column(first_rows: Sequence[object], cast: Sequence[object]) -> RetypedColumn | None:
    """Return the first column of `cast`, rows of later files, that does not fit `first_rows`, those of the first file.

    A column whose first values are of several kinds is not judged.
    """
    if not cast:
        return None
    kinds: dict[str, set[JsonKind]] = {}
    for path, value in _values_of_rows("", first_rows):
        kinds.setdefault(path, set()).add(_json_kind(value))
    for path, value in _values_of_rows("", cast):
        known = kinds.get(path, set()) - {"null"} or kinds.get(path, set())
        if len(known) == 1 and not _can_cast(first := next(iter(known)), value):
            return RetypedColumn(path, first, value)
    return None


def _values_of_rows(path: str, rows: Sequence[object]) -> Iterator[tuple[str, object]]:
    for row in rows:
        if isinstance(row, dict):
            for key, value in row.items():
                yield from _values_below(f"{path}.{key}" if path else str(key), value)


def _values_below(path: str, value: object) -> Iterator[tuple[str, object]]:
    yield path, value
    if isinstance(value, dict):
        yield from _values_of_rows(path, [value])
    elif isinstance(value, list):
        for one in value or [None]:  # an empty list tells the type null
            yield from _values_below(f"{path}[]", one)


def _json_kind(value: object) -> JsonKind:
    return _KINDS.get(type(value), "object")


def _can_cast(kind: JsonKind, value: object) -> bool:
    if kind in ("int", "float") and isinstance(value, str):
        return _is_number(value)
    if kind == "int" and isinstance(value, float):
        return value.is_integer()
    return _json_kind(value) in _CAST[kind]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
