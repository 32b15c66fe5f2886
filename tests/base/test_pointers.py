from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.pointers import MISSING, Item, NamedEntry, Pointer, find_pointer, put, remove

DOCUMENT: dict[str, Any] = {
    "spec": {
        "jobs": [
            {"name": "head", "spec": {"spec": {"args": ["--a=1", "--b=2"]}}},
            {"name": "worker", "labels": {"a/b~c": "x"}, "none": None},
        ]
    }
}

FOUND: tuple[tuple[Pointer, str, Any], ...] = (
    ((), "", DOCUMENT),
    (("spec", "jobs", NamedEntry("worker"), "name"), "/spec/jobs/1/name", "worker"),
    (("spec", "jobs", 0, "name"), "/spec/jobs/0/name", "head"),
    (("spec", "jobs", -1, "name"), "/spec/jobs/1/name", "worker"),
    (("spec", "jobs", NamedEntry("worker"), "labels", "a/b~c"), "/spec/jobs/1/labels/a~1b~0c", "x"),
    (
        ("spec", "jobs", NamedEntry("head"), "spec", "spec", "args", Item("--b=2")),
        "/spec/jobs/0/spec/spec/args/1",
        "--b=2",
    ),
    (("spec", "jobs", NamedEntry("worker"), "none"), "/spec/jobs/1/none", None),
)

NOWHERE: tuple[tuple[Pointer, str], ...] = (
    (("metadata", "name"), "/metadata/name"),
    (("spec", "jobs", NamedEntry("other"), "spec", "x"), "/spec/jobs/other/spec/x"),
    (("spec", "jobs", 2), "/spec/jobs/2"),
    (("spec", "jobs", "head"), "/spec/jobs/head"),
    (("spec", NamedEntry("head")), "/spec/head"),
    # The same key again further down is another place.
    (("spec", "jobs", NamedEntry("head"), "spec", "spec", "spec", "x"), "/spec/jobs/0/spec/spec/spec/x"),
    (("spec", "jobs", NamedEntry("head"), "spec", "spec", "args", Item("--c")), "/spec/jobs/0/spec/spec/args/-"),
    (("spec", "jobs", NamedEntry("worker"), "name", "deeper"), "/spec/jobs/1/name/deeper"),
)


@pytest.mark.parametrize(("path", "pointer", "value"), FOUND)
def test_find_returns_place_and_text(path: Pointer, pointer: str, value: Any) -> None:
    assert find_pointer(DOCUMENT, path) == (pointer, value)


@pytest.mark.parametrize(("path", "pointer"), NOWHERE)
def test_find_of_a_missing_value_returns_the_place_it_would_have(path: Pointer, pointer: str) -> None:
    assert find_pointer(DOCUMENT, path) == (pointer, MISSING)


NAMES = st.sampled_from(["a", "b", "spec", "x/y", "~"])
# A key, or a list and its entry: what paths in a manifest are made of.
STEPS = NAMES.map(lambda key: (key,)) | st.tuples(NAMES.map("list-{}".format), NAMES.map(NamedEntry))
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(lambda steps: tuple(key for step in steps for key in step))


def _value(path: Pointer, number: int) -> Any:
    """Return a value for the path: an entry of a list has a name."""
    return {"name": path[-1].name, "n": number} if isinstance(path[-1], NamedEntry) else number


@given(path=PATHS, number=st.integers())
def test_a_value_that_was_put_is_found(path: Pointer, number: int) -> None:
    assert find_pointer(put(None, path, _value(path, number)), path)[1] == _value(path, number)


@given(first=PATHS, second=PATHS)
def test_putting_a_value_twice_equals_putting_it_once(first: Pointer, second: Pointer) -> None:
    try:
        once = put(put(None, first, _value(first, 1)), second, _value(second, 2))
    except LookupError:
        # One path goes on where the other one ends in a number.
        assert second[: len(first)] == first
        return
    assert put(once, second, _value(second, 2)) == once


@given(first=PATHS, second=PATHS)
def test_putting_a_value_changes_no_other_value(first: Pointer, second: Pointer) -> None:
    if first[: len(second)] == second or second[: len(first)] == first:
        return
    document = put(put(None, first, _value(first, 1)), second, _value(second, 2))
    assert find_pointer(document, first)[1] == _value(first, 1)


@pytest.mark.parametrize("path", [path for path, _, _ in FOUND[1:]])
def test_a_removed_value_is_gone_from_the_copy_only(path: Pointer) -> None:
    before = copy.deepcopy(DOCUMENT)
    changed = remove(DOCUMENT, path)
    assert find_pointer(changed, path)[1] != find_pointer(before, path)[1] or find_pointer(changed, path)[1] is MISSING
    assert changed != before
    assert before == DOCUMENT


@pytest.mark.parametrize("path", [path for path, _ in NOWHERE])
def test_removing_a_missing_value_is_no_error(path: Pointer) -> None:
    assert remove(DOCUMENT, path) == DOCUMENT


@pytest.mark.parametrize("path", [path for path, _, _ in FOUND[1:]])
def test_put_replaces_the_value_in_a_copy(path: Pointer) -> None:
    before = copy.deepcopy(DOCUMENT)
    pointer = find_pointer(DOCUMENT, path)[0]
    changed = put(DOCUMENT, path, "new")
    assert before == DOCUMENT
    assert _at(changed, pointer) == "new"
    assert put(changed, (), before) == before


def test_a_missing_named_entry_is_appended_with_its_name() -> None:
    assert put({"env": [{"name": "A"}]}, ("env", NamedEntry("B"), "value"), "1") == {
        "env": [{"name": "A"}, {"name": "B", "value": "1"}]
    }


@pytest.mark.parametrize(
    "path",
    [
        ("args", Item("--c")),
        ("args", 7),
        ("args", "key"),
        ("map", NamedEntry("a")),
        ("text", "key"),
        ("text", NamedEntry("a")),
    ],
)
def test_put_refuses_a_path_that_does_not_fit(path: Pointer) -> None:
    with pytest.raises(LookupError):
        put({"args": ["--a"], "map": {"a": 1}, "text": "x"}, path, "--c=2")


def test_missing_has_a_readable_representation() -> None:
    assert repr(MISSING) == "(nothing)"


def _at(document: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document
