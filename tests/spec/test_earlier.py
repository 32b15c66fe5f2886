from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spec.test_digest import default_of
from xsft.facts import Facts, TemplateFacts
from xsft.spec.digest import canonical, spec_digest
from xsft.spec.earlier import earlier_digest, in_todays_form
from xsft.spec.model import WorkloadSpec
from xsft.spec.resolve import Run, resolve
from xsft.trainers.record import all_differences

WRITTEN: dict[str, Any] = json.loads(Path(__file__).with_name("earlier.json").read_text(encoding="utf-8"))
"""Workloads, and what the xsft of commit abb8459 made of them: digest and canonical JSON."""


def run_of(name: str) -> Run:
    return resolve(WorkloadSpec.model_validate(WRITTEN[name]["workload"]), Facts())[0]


def now(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(canonical(run))
    return found


@pytest.mark.parametrize("name", WRITTEN)
def test_a_digest_of_before_is_known(name: str) -> None:
    assert earlier_digest(run_of(name)) == WRITTEN[name]["digest"] != spec_digest(run_of(name))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_of_before_differs_in_nothing(name: str) -> None:
    assert all_differences(WRITTEN[name]["spec"], now(run_of(name))) == ()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_of_today_is_in_todays_form(name: str) -> None:
    document = now(run_of(name))
    assert all_differences(in_todays_form(document), document) == ()
    assert in_todays_form(in_todays_form(document)) == in_todays_form(document)


def test_an_earlier_run_keeps_its_maxtext_release_when_the_default_changes() -> None:
    with default_of("image.maxtext", "0.2.4"):
        run = run_of("small")  # its file does not state a release
        assert earlier_digest(run) != WRITTEN["small"]["digest"]
        assert all_differences(WRITTEN["small"]["spec"], now(run)) == ('image.maxtext: "0.2.5" -> "0.2.4"',)
        stated = run_of("stated")
        assert earlier_digest(stated) == WRITTEN["stated"]["digest"]
        assert all_differences(WRITTEN["stated"]["spec"], now(stated)) == ()


def test_a_run_of_before_trained_without_its_template_and_is_another() -> None:
    """Its path was in the digest, and MaxText dropped the file."""
    small: dict[str, Any] = WRITTEN["small"]["workload"]
    named = {**small, "data": {**small["data"], "chat_template": "chat.jinja"}}
    then, _ = resolve(WorkloadSpec.model_validate(named), Facts())
    today, _ = resolve(WorkloadSpec.model_validate(named), Facts(template=TemplateFacts(text="{{ messages }}")))
    assert earlier_digest(today) not in (earlier_digest(then), WRITTEN["small"]["digest"])
    record = {**WRITTEN["small"]["spec"], "data": {**WRITTEN["small"]["spec"]["data"], "chat_template": "chat.jinja"}}
    changed = all_differences(in_todays_form(record), now(today))
    assert [line.partition(":")[0] for line in changed] == ["data.chat_template", "data.chat_template.chat_template"]


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
NAMES = st.sampled_from(["place", "model", "train", "image", "pathways", "mode", "target", "checkpoint", "hf"])


@given(st.dictionaries(NAMES, JSON | st.dictionaries(NAMES, JSON) | st.sampled_from(["pathways", "local"])))
def test_files_of_any_other_xsft_version_are_read(document: dict[str, Any]) -> None:
    assert in_todays_form(in_todays_form(document)) == in_todays_form(document)
