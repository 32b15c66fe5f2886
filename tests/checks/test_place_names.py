"""Names fit every Kubernetes object derived from them, including those of second attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from xsft.checks.facts import Facts
from xsft.checks.place import check_names as check
from xsft.checks.place import shorten_name


@pytest.mark.parametrize(("mode", "limit"), [("mcjax", 38), ("pathways", 20)])
def test_name_limit_of_the_mode_leaves_room_for_a_second_attempt(mode: str, limit: int):
    base = FLAGSHIP if mode == "pathways" else {**FLAGSHIP, "mode": "mcjax"}
    assert ids(check, spec(base, name="a" * limit)) == set()
    (problem,) = problems(check, spec(base, name="a" * (limit + 1)))
    assert (problem.id, problem.severity, problem.where) == ("name-too-long", "error", "name")
    assert f"the limit in {mode} mode is {limit} " in problem.message
    assert f"e.g. {'a' * limit}." in problem.fix


def test_run_name_suffix_counts_towards_the_limit():
    dated = spec(FLAGSHIP, name="deepseek-chat", run_name_suffix="date")
    (problem,) = problems(check, dated, Facts(today="20261121"))
    assert "'deepseek-chat-20261121' has 22 characters" in problem.message
    assert "Shorten name to 11 characters" in problem.fix


def test_tenth_attempt_of_a_long_name_is_refused():
    long = spec(FLAGSHIP, name="a" * 20)
    assert ids(check, long, Facts(attempt=9)) == set()
    assert ids(check, long, Facts(attempt=10)) == {"name-attempts"}


@pytest.mark.parametrize("name", ["none", "true", "off", "y"])
def test_names_that_yaml_would_misread_are_refused(name: str):
    assert ids(check, spec(name=name)) == {"name-misread"}
    assert ids(check, spec(name=name, target="local")) == {"name-misread"}
    assert ids(check, spec(name=f"{name}-run")) == set()


def test_stage_name_that_is_too_long_is_reported_before_the_training():
    mcjax = {**FLAGSHIP, "mode": "mcjax"}
    stages = {"export": {}}
    assert ids(check, spec(mcjax, name="a" * 31, stages=stages)) == set()
    (problem,) = problems(check, spec(mcjax, name="a" * 32, stages=stages))
    assert problem.id == "stage-name-too-long"
    assert "has 39 characters; the limit is 38" in problem.message
    assert "Shorten name to 31 characters" in problem.fix


def test_stage_name_taken_by_a_training_is_reported():
    facts = Facts(taken=("a-export",))
    (problem,) = problems(check, spec(FLAGSHIP, name="a", stages={"export": {}}), facts)
    assert (problem.id, problem.where) == ("stage-name-taken", "name")
    assert ids(check, spec(FLAGSHIP, name="a"), facts) == set()


def test_local_run_may_have_a_long_name():
    assert ids(check, spec(target="local", name="a" * 40)) == set()


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True), st.integers(1, 40))
def test_suggested_name_is_valid_and_fits(name: str, limit: int):
    found = shorten_name(name, limit)
    assert len(found) <= limit
    assert spec(name=found).name == found


def test_suggested_name_keeps_every_word():
    assert shorten_name("deepseek-ultrachat-mcjax", 20) == "deepse-ultrach-mcjax"
    assert shorten_name("qwen3-gsm8k", 20) == "qwen3-gsm8k"


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_label_that_xsft_sets_is_refused_by_name(kind: str) -> None:
    (reported,) = problems(check, spec(pods={kind: {"xsft.dev/run": "mine", "cost-centre": "nlp"}}))
    assert (reported.id, reported.where) == ("pods-reserved", "pods")
    assert "xsft.dev/run" in reported.message
