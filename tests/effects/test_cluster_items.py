"""A list read item by item gives what json gives, or says that it is cut off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xsft.effects import cluster_items
from xsft.effects.cluster_items import each_item

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def items(text: str, cuts: tuple[int, ...] = ()) -> tuple[Any, ...]:
    content = text.encode()
    ends = sorted({cut % (len(content) + 1) for cut in cuts})
    parts = [content[a:b] for a, b in zip((0, *ends), (*ends, len(content)), strict=True)]
    return each_item(parts, reduce=lambda item: item)


@pytest.fixture(autouse=True)
def _tried_at_every_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_items, "ENOUGH", 1)
    monkeypatch.setattr(cluster_items, "ALIKE", 8)


CUTS = st.lists(st.integers(0, 10_000), max_size=5).map(tuple)


@given(
    st.lists(VALUES, max_size=4),
    st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
    st.sampled_from([None, 1]),
    CUTS,
)
def test_items_are_those_of_json(
    members: list[Any], beside: dict[str, Any], indent: int | None, cuts: tuple[int, ...]
) -> None:
    """However it is cut in two: within a character, a number, a word."""
    for order in (
        {**beside, "items": members},
        {"items": members, **{k: v for k, v in beside.items() if k != "items"}},
    ):
        assert items(json.dumps(order, indent=indent, ensure_ascii=False), cuts) == tuple(members)


def test_every_cut_of_one_list() -> None:
    text = '{"n": 12, "items": [1.25, "ä\\"]", true, [], 34], "m": null}'
    for cut in range(len(text.encode())):
        assert items(text, (cut,)) == (1.25, 'ä"]', True, [], 34)


@pytest.mark.parametrize(
    "text", ['{"items": [1,]}', '{"items": [1 2]}', '{"items": [1}', '{"a": 1,}', '{"items": [,]}']
)
def test_what_is_no_json_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match="no whole list"):
        items(text)


@given(st.lists(VALUES, min_size=1, max_size=3), st.data())
def test_half_an_answer_is_none(members: list[Any], data: st.DataObject) -> None:
    text = json.dumps({"kind": "List", "items": members})
    with pytest.raises(ValueError, match="no whole list"):
        items(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.parametrize("text", ["{}", '{"items": null}', '{"metadata": {"items": [1]}}', ' { "items" : [ ] } '])
def test_without_items_there_are_none(text: str) -> None:
    assert items(text) == ()


@pytest.mark.parametrize("text", ["", "[]", "null", "<html>", '"items"', "{1: 2}"])
def test_what_is_no_object_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match="no whole list"):
        items(text)


def listed(*objects: object) -> str:
    return json.dumps({"items": objects}, separators=(",", ":"))


def test_who_set_which_field_is_left_out() -> None:
    fields = [{"manager": "kueue", "fieldsV1": {"f:spec": {".": {}, 'k:{"name":"x"}': {}}}}]
    found = items(listed(*({"metadata": {"managedFields": fields, "name": name}} for name in "abc")))
    assert [one["metadata"] for one in found[:2]] == [{"managedFields": [], "name": name} for name in "ab"]
    assert found[2]["metadata"]["name"] == "c"


def test_the_pods_of_a_workload_are_left_out() -> None:
    pods = [{"name": "slice-job", "template": {"spec": {"containers": [{"command": ["a]", "b"]}]}}}]
    spec = {"active": True, "podSets": pods, "priority": 500, "queueName": "q"}
    found = items(listed(*({"spec": spec, "status": {"conditions": [{"type": "x"}]}} for _ in "abc")))
    assert found[0] == {"spec": {**spec, "podSets": []}, "status": {"conditions": [{"type": "x"}]}}
    assert found[2]["spec"] == spec


MARKS = ('"managedFields":[', '"podSets":[', '"queueName":', "managedFields", "podSets")
ODD = st.sampled_from((*MARKS, "]", "[", "}", "{", '},{"', '"', "\\", "a", ","))
ODD_TEXT = st.lists(ODD, max_size=5).map("".join)
ODD_VALUES = st.recursive(
    st.none() | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ODD_TEXT, inner, max_size=2),
    max_leaves=5,
)


@settings(max_examples=400)
@given(st.lists(st.tuples(ODD_VALUES, ODD_VALUES), min_size=1, max_size=4), CUTS)
def test_nothing_else_is_ever_left_out(told: list[tuple[Any, Any]], cuts: tuple[int, ...]) -> None:
    """Whatever stands in strings: what is read is the object, but for its managedFields."""
    given = [{"managedFields": [one], "name": other} for one, other in told]
    for found, whole in zip(items(listed(*given), cuts), given, strict=True):
        assert found in (whole, {**whole, "managedFields": []})


@settings(max_examples=400)
@given(st.lists(st.tuples(ODD_VALUES, ODD_TEXT, ODD_VALUES), min_size=1, max_size=4), CUTS)
def test_nothing_but_the_pods_of_a_workload_is_ever_left_out(
    told: list[tuple[Any, str, Any]], cuts: tuple[int, ...]
) -> None:
    """What one of them calls managedFields may be left out too, wherever that stands."""
    given = [{"podSets": [pods], "priority": priority, "queueName": name} for pods, priority, name in told]
    for found, whole in zip(items(listed(*given), cuts), map(unmanaged, given), strict=True):
        assert unmanaged(found) in (whole, {**whole, "podSets": []})


def unmanaged(value: Any) -> Any:
    if isinstance(value, list):
        return [unmanaged(one) for one in value]
    if not isinstance(value, dict):
        return value
    emptied = {key: isinstance(inner, list) and key == "managedFields" for key, inner in value.items()}
    return {key: [] if emptied[key] else unmanaged(inner) for key, inner in value.items()}
