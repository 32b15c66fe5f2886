"""Every field of what is kept of a run comes back as it was written: a dropped one turns a test red."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.observations import jobset, said
from xsft.reading.lastknown_line import LastKnown, line_of, read_line
from xsft.states.model import Before, Status

KNOWN = LastKnown(
    jobset=jobset(),
    status=Status(state="training"),
    observed_at="2026-11-21T12:00:00Z",
    progress=said(120),
    before=Before(at="2026-11-21T11:00:00Z", state="training"),
)
OF_A_MOMENT: Mapping[str, frozenset[str]] = {
    "jobset": frozenset({"jobs", "suspended", "has_status", "deleting_at", "image", "conditions"}),
    "progress": frozenset({"phase", "began_at", "resumed_order"}),
}
"""What is not kept: true for a moment only, or of runs on this machine, whose records tell it."""


def leaves() -> Iterator[tuple[str, str]]:
    """(part, field); the part is empty for the fields of `LastKnown` itself."""
    for part, whole in (
        ("", KNOWN),
        *((name, getattr(KNOWN, name)) for name in ("jobset", "status", "progress", "before")),
    ):
        skipped = OF_A_MOMENT.get(part, frozenset())
        yield from ((part, name) for name in whole.__struct_fields__ if name not in skipped and _is_leaf(whole, name))


def _is_leaf(whole: Struct, name: str) -> bool:
    return not isinstance(getattr(whole, name), Struct)


def other(value: object, hint: Any) -> object:
    """Return another value of the same type."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kind = next(one for one in kinds if one is not type(None))
    match get_origin(kind) or kind:
        case origin if origin is Literal:
            return next(one for one in get_args(kind) if one != value)
        case origin if origin is tuple:
            return ("something",)
        case origin if origin is bool:
            return not value
        case origin if origin is int:
            return 7 if value != 7 else 8
        case origin if origin is float:
            return 2.5 if value != 2.5 else 3.5
        case _:
            return "something" if value != "something" else "else"


@pytest.mark.parametrize(("part", "name"), tuple(leaves()))
def test_every_field_of_a_last_known_line_is_read_back(part: str, name: str) -> None:
    whole = getattr(KNOWN, part) if part else KNOWN
    changed = replace(whole, **{name: other(getattr(whole, name), get_type_hints(type(whole))[name])})
    known = replace(KNOWN, **{part: changed}) if part else changed
    back = read_line(line_of(known))
    assert back is not None
    assert getattr(getattr(back, part) if part else back, name) == getattr(changed, name)
