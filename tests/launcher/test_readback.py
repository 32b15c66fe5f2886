"""Fields that a cluster adds are accepted; fields that it changes are reported."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stories import ROOT
from xsft.launcher.audit import AuditRow
from xsft.launcher.readback import lacking_of_xpk, lost_by_xpk, missing_values
from xsft.spec.yamltext import load_yaml

MANIFEST: dict[str, Any] = load_yaml((ROOT / "tests" / "golden" / "deepseek_ultrachat.manifest.yaml").read_text())


def row(field: str, where: str, outcome: Any = "landed") -> AuditRow:
    return AuditRow(field=field, outcome=outcome, where=where, requested=1, rendered=1)


@pytest.mark.parametrize(
    ("planned_value", "cluster_value"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2], "c": 3}}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}),
        ({"a": None}, {}),
        ({"annotations": None}, {"annotations": {"kueue.x-k8s.io/workload": "jobset-a-1b2c3"}}),
        ({"a": {}}, {}),
        ({"a": []}, {"a": None}),
        ({"cpu": 24}, {"cpu": "24"}),
        ({"spec": {"suspend": False}}, {"spec": {"suspend": True}}),
    ],
)
def test_a_value_that_the_cluster_adds_is_no_difference(planned_value: Any, cluster_value: Any) -> None:
    assert missing_values(planned_value, cluster_value) == []


def test_an_item_that_the_cluster_does_not_have_is_a_difference() -> None:
    rows = (row("args", "/args/0"), row("args", "/args/1"))
    assert lacking_of_xpk(rows, manifest={"args": ["a", "b"]}, stored={"args": ["a"]}) == ['/args/1: "b" -> null']


@pytest.mark.parametrize(
    ("planned_value", "cluster_value", "message"),
    [
        ({"a": {"b": 1}}, {"a": "x"}, '/a: {"b": 1} -> "x"'),
        ({"a": "x"}, {"a": {"b": 1}}, '/a: "x" -> {"b": 1}'),
        ({"a": 1}, {}, "/a: 1 -> null"),
        ({"a": {"b/c": 1}}, {"a": {"b/c": 2}}, "/a/b~1c: 1 -> 2"),
        ({"~/": "x" * 90}, {"~/": None}, f'/~0~1: "{"x" * 79} -> null'),
        ({"a": [1, 2]}, {"a": [1]}, "/a: [1, 2] -> [1]"),
        ({"a": True}, {"a": "True"}, '/a: true -> "True"'),
        ({"a": {"suspend": False}}, {"a": {"suspend": True}}, "/a/suspend: false -> true"),
        ({"a": []}, {"a": [1]}, ""),
        ({"a": 0}, {"a": None}, "/a: 0 -> null"),
    ],
)
def test_a_value_that_the_cluster_changes_is_reported(planned_value: Any, cluster_value: Any, message: str) -> None:
    assert missing_values(planned_value, cluster_value) == ([message] if message else [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_manifest_has_no_difference_to_itself(value: Any) -> None:
    assert missing_values(value, copy.deepcopy(value)) == []


@given(st.text("~/01a", max_size=5))
def test_a_pointer_names_the_same_value_whatever_its_keys(key: str) -> None:
    planned_value, cluster_value = {"a": {key: [0, 1]}}, {"a": {key: [0, 2]}}
    (difference,) = missing_values(planned_value, cluster_value)
    landed = row("x", difference.partition(":")[0])
    assert lacking_of_xpk((landed,), manifest=planned_value, stored=cluster_value) == [difference]


def test_arguments_of_xpk_are_found_where_the_audit_found_them() -> None:
    rows = (
        row("tpu.num_slices", "/spec/replicatedJobs/1/replicas"),
        row("priority", "/spec/replicatedJobs/0/template", outcome="patched"),
        row("name", "/metadata/name"),
    )
    copied = copy.deepcopy(MANIFEST)
    copied["metadata"] = {"name": "another"}
    del copied["spec"]["replicatedJobs"][0]["template"]
    assert lacking_of_xpk(rows, manifest=MANIFEST, stored=copied) == []
    copied["spec"]["replicatedJobs"][1]["replicas"] = 3
    assert lacking_of_xpk(rows, manifest=MANIFEST, stored=copied) == ["/spec/replicatedJobs/1/replicas: 2 -> 3"]
    assert lacking_of_xpk(rows, manifest=MANIFEST, stored={"spec": {"replicatedJobs": []}})


@pytest.mark.parametrize(
    ("field", "where", "question"),
    [
        ("restarts.max", "/spec/failurePolicy/maxRestarts", "restarts.max"),
        ("restarts.max", "/spec/failurePolicy/maxRestarts", "restarts"),
        ("secrets.hf_token", "/spec/replicatedJobs/0/x", "secrets.hf_token.secret"),
        ("queue", "/metadata/labels/kueue.x-k8s.io~1queue-name", "queue"),
    ],
)
def test_requested_values_that_xpk_would_lose_are_listed(field: str, where: str, question: str) -> None:
    audit_row = row(field, where, outcome="patched")
    assert lost_by_xpk((audit_row,), requested=(question,)) == (audit_row,)


def test_defaults_and_the_identity_are_not_listed_as_lost() -> None:
    rows = (
        row("restarts.max", "/spec/failurePolicy/maxRestarts"),
        row("restarts.on_exit_codes", "/spec/failurePolicy/rules", outcome="patched"),
        row("name", "/metadata/labels/xsft.dev~1run", outcome="patched"),
        row("name", "/spec/replicatedJobs/0/template/metadata/labels/xpk.google.com~1workload", outcome="patched"),
        row("train.steps", "/metadata/annotations/xsft.dev~1steps", outcome="patched"),
        row("place.namespace", "/metadata/namespace", outcome="patched"),
    )
    assert lost_by_xpk(rows, requested=("restarts.max", "name", "train.steps", "place.namespace")) == ()
