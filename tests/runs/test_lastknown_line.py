"""Every field of what is kept of a run comes back as it was written: a dropped one turns a test red."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.observations import jobset, said
from xsft.cluster.objects import Condition
from xsft.cluster.observation import Before, Observation, Status, Unread
from xsft.runs.lastknown import LastKnown, line_of, read_line

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
    for part, struct in (
        ("", KNOWN),
        *((name, getattr(KNOWN, name)) for name in ("jobset", "status", "progress", "before")),
    ):
        skipped = OF_A_MOMENT.get(part, frozenset())
        yield from ((part, name) for name in struct.__struct_fields__ if name not in skipped and _is_leaf(struct, name))


def _is_leaf(struct: Struct, name: str) -> bool:
    return not isinstance(getattr(struct, name), Struct)


def other(value: object, hint: Any) -> object:
    """Return another value of the same type."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kind = next(member for member in kinds if member is not type(None))
    match get_origin(kind) or kind:
        case origin if origin is Literal:
            return next(member for member in get_args(kind) if member != value)
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


def changes(last_known: LastKnown, part: str, name: str) -> LastKnown:
    """Return the same with another value in one field."""
    struct = getattr(last_known, part) if part else last_known
    changed = replace(struct, **{name: other(getattr(struct, name), get_type_hints(type(struct))[name])})
    return replace(last_known, **{part: changed}) if part else changed


@pytest.mark.parametrize(("part", "name"), tuple(leaves()))
def test_every_field_of_a_last_known_line_is_read_back(part: str, name: str) -> None:
    last_known = changes(KNOWN, part, name)
    back = read_line(line_of(last_known))
    assert back is not None
    read, written = ((getattr(struct, part) if part else struct) for struct in (back, last_known))
    assert getattr(read, name) == getattr(written, name)


@pytest.mark.parametrize(
    ("part", "name"), [(part, name) for part, names in OF_A_MOMENT.items() for name in names - {"conditions"}]
)
def test_what_is_true_for_a_moment_is_not_kept(part: str, name: str) -> None:
    assert line_of(changes(KNOWN, part, name)) == line_of(KNOWN)
    assert changes(KNOWN, part, name) != KNOWN
    back = read_line(line_of(KNOWN))
    assert back is not None
    assert (back.jobset.suspended, back.jobset.has_status) == (False, True), "it passes for neither queued nor broken"


def test_only_the_end_of_the_jobset_is_kept_of_its_conditions() -> None:
    ends = tuple(Condition(type=kind, status="True", reason="r", at="now") for kind in ("Completed", "Failed"))
    others = (Condition(type="Failed", status="False"), Condition(type="Suspended", status="True"))
    with_messages = replace(
        KNOWN.jobset, conditions=(*others, *(replace(last_condition, message="long") for last_condition in ends))
    )
    back = read_line(line_of(replace(KNOWN, jobset=with_messages)))
    assert back is not None
    assert back.jobset.conditions == ends


def test_the_end_of_a_jobset_in_an_older_line_is_read() -> None:
    end = Condition(type="Failed", status="True", at="2026-11-21T11:30:00Z")
    written = line_of(replace(KNOWN, jobset=replace(KNOWN.jobset, conditions=(end,))))
    older = read_line(written.replace('"lastTransitionTime"', '"at"'))
    assert older is not None
    assert older.jobset.conditions == (end,)


def test_a_line_without_newer_fields_is_read_with_their_neutral_values() -> None:
    document = json.loads(line_of(KNOWN))
    last_known = read_line(json.dumps({name: document[name] for name in ("jobset", "status", "observed_at")}))
    assert last_known is not None
    assert (last_known.read_at, last_known.progress, last_known.before, last_known.ended_at) == ("", None, None, None)
    assert (last_known.found, last_known.unheard, last_known.gone) == ("", False, False)


@pytest.mark.parametrize(("part", "name"), tuple(leaves()))
def test_an_observation_of_the_last_known_state_has_every_field_that_both_have(part: str, name: str) -> None:
    last_known = changes(KNOWN, part, name)
    unread = (Unread(what="jobsets", why="no answer"),)
    observation = last_known.observation("my-cluster", unread=unread)
    shared = set(LastKnown.__struct_fields__) & set(Observation.__struct_fields__) - {"found"}
    assert {field: getattr(observation, field) for field in shared} == {
        field: getattr(last_known, field) for field in shared
    }
    assert (observation.run_name, observation.target) == (last_known.jobset.run_name, last_known.jobset.target)
    assert (observation.cluster, observation.unread, observation.last_known) == (
        "my-cluster",
        unread,
        last_known.status,
    )


@pytest.mark.parametrize(("part", "name"), tuple(leaves()))
def test_the_state_before_a_restart_is_the_last_known_one(part: str, name: str) -> None:
    last_known = changes(KNOWN, part, name)
    before = last_known.as_before()
    assert (before.at, before.state, before.reason) == (
        last_known.observed_at,
        last_known.status.state,
        last_known.status.reason,
    )
    assert last_known.progress is not None
    assert (before.step, before.saved_step) == (last_known.progress.step, last_known.progress.saved_step)
    assert before.found == last_known.found
    unread = replace(last_known, progress=None).as_before()
    assert (unread.step, unread.saved_step) == (None, None)
