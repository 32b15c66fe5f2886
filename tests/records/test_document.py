"""Records are read as they were written: old ones, newer ones; broken ones are refused."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.arbitrary import any_of
from tests.replacing import replace
from xsft.base.problems import note, warning
from xsft.records.document import facts_to_json, read_facts, read_record, to_json, unreadable
from xsft.records.record import (
    SCHEMA,
    Attempt,
    AttemptFacts,
    ClusterAddress,
    Git,
    Outcome,
    ReadBack,
    Receipt,
    Record,
    RecordedImage,
)

WHOLE = Record(
    run_name="a-run",
    spec_digest="d" * 64,
    spec={"train": {"steps": 3}, "env": {"A": "b"}},
    steps=3,
    target="xpk",
    mode="pathways",
    output="gs://my-bucket/runs",
    losses={1: 2.5, 2: 2.25},
    attempts=(
        Attempt(
            number=2,
            spec_digest="d" * 64,
            started_at="2026-11-21T10:00:00+00:00",
            argv=("python3", "-m", "m", "steps=3"),
            env={"HF_TOKEN_PATH": "/xsft/hf/token"},
            outcome="created",
            problems=(warning("w", "train.steps", "few", "more"),),
            submitter="0123456789abcdef",
            action="created",
            jobset="a-run-2",
            namespace="team",
            cluster=ClusterAddress(project="my-project", zone="us-east5-b", cluster="c"),
            uid="u-i-d",
            created_at="2026-11-21T10:00:01+00:00",
            created_by="0123456789abcdef",
            read_back=ReadBack(outcome="differs", differences=("/spec/x: 1 -> 2",)),
            xpk_argv=("xpk", "workload", "create-pathways", "--docker-image-pull-secret=pull"),
            manifest_digest="e" * 64,
            resolved={"chips": 512},
            image=RecordedImage(ref="i@sha256:1", digest="sha256:1"),
            git=Git(commit="1" * 40, dirty=True),
            versions={"xsft": "1"},
            user="somebody",
        ),
    ),
)
FACTS = AttemptFacts(
    outcome="created", at="t", submitter="ab", action="created", uid="u", read_back=ReadBack(outcome="same")
)


def changed(change: dict[str, Any], **attempt: Any) -> Record:
    document = json.loads(to_json(WHOLE)) | change
    document["attempts"] = [{**document["attempts"][0], **attempt}] if attempt else document["attempts"]
    return read_record(json.dumps(document))


def test_a_record_is_read_back_as_written() -> None:
    assert read_record(to_json(WHOLE)) == WHOLE


def test_facts_are_read_back_with_their_source() -> None:
    text = facts_to_json(FACTS, run_name="a-run", number=2)
    assert read_facts(text) == FACTS
    assert json.loads(text) | {"schema": SCHEMA, "run_name": "a-run", "attempt": 2} == json.loads(text)


@given(any_of(Record, schema=st.just(SCHEMA), unread=st.just(())))
def test_every_field_of_a_record_is_read_back(record: Record) -> None:
    assert read_record(to_json(record)) == record


@given(any_of(AttemptFacts))
def test_every_field_of_facts_is_read_back(facts: AttemptFacts) -> None:
    assert read_facts(facts_to_json(facts, run_name="a", number=1)) == facts


def test_a_record_file_has_the_documented_form() -> None:
    """Other programs and people read it as well: the outcome on top, losses as pairs in order, no nulls, no escapes."""
    text = to_json(replace(WHOLE, mode=None, target="bücher", losses={2: 2.25, 1: 2.5}))
    document = json.loads(text)
    assert list(document)[:2] == ["schema", "run_name"]
    assert '\n "target": "bücher",\n' in text
    assert (document["outcome"], document["losses"]) == ("created", [[1, 2.5], [2, 2.25]])
    assert None not in (*document.values(), *document["attempts"][0].values())
    assert "unread" not in document


def test_unknown_keys_of_a_newer_xsft_are_ignored() -> None:
    assert changed({"newer": {"a": 1}}, newest=[1]) == WHOLE


@pytest.mark.parametrize("key", sorted({f.name for f in fields(Record)} - {"run_name", "schema", "unread"}))
def test_a_missing_key_has_its_default(key: str) -> None:
    document = json.loads(to_json(WHOLE))
    del document[key]
    assert read_record(json.dumps(document)) == replace(WHOLE, **{key: getattr(Record(run_name="a"), key)})


def test_an_attempt_needs_only_its_number() -> None:
    record = read_record(json.dumps({"schema": SCHEMA, "run_name": "a", "attempts": [{"number": 4}]}))
    assert record == Record(run_name="a", attempts=(Attempt(number=4),))


def test_values_of_schema_version_1_are_still_read() -> None:
    text = '{"schema": "xsft.record/1", "run_name": "a", "attempts": [{"number": 4, "receipt": {}}]}'
    record = read_record(text)
    assert (record.schema, record.target, record.steps, record.last.outcome) == ("xsft.record/1", "local", 0, "running")
    assert record.last.receipt == Receipt(seconds={}, steps=0, notes=())
    problem = {"id": "w", "severity": "note", "message": "m", "fix": "f", "fit": "unknown"}
    assert changed({}, problems=[problem]).last.problems == (note("w", "", "m", "f"),)
    words = "submitting not-created created running completed short failed interrupted cancelled unknown"
    assert get_args(Outcome) == tuple(words.split())


def test_a_newer_schema_is_read_and_never_rewritten() -> None:
    record = changed({"schema": "xsft.record/2"}, outcome="hibernating")
    unknown = (replace(WHOLE.last, outcome="unknown"),)
    assert record == replace(WHOLE, schema="xsft.record/2", attempts=unknown)
    with pytest.raises(ValueError, match=r"xsft\.record/2"):
        to_json(record)


@pytest.mark.parametrize(
    ("change", "attempt", "words"),
    [
        ({"steps": {"asked": 3}}, {}, "steps"),
        ({"losses": [[1, "low"]]}, {}, "[0][1]"),
        ({"attempts": [3]}, {}, "[0]"),
        ({"attempts": [{"uid": "u"}]}, {}, "number"),
        ({}, {"argv": "no list"}, "argv"),
        ({}, {"problems": [{"id": "only"}]}, "problems"),
        ({}, {"env": {"A": 1}}, "env"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(
    change: dict[str, Any], attempt: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        changed(change, **attempt)


@pytest.mark.parametrize("unread_words", [["steps"], 5])
def test_the_list_of_unread_values_is_not_read_from_the_file(unread_words: object) -> None:
    assert changed({"unread": unread_words}) == WHOLE


def test_null_is_read_as_a_missing_value() -> None:
    assert changed({"mode": None}, uid=None, argv=None).last == replace(WHOLE.last, uid=None, argv=())


def test_a_record_read_in_part_is_not_rewritten() -> None:
    with pytest.raises(ValueError, match="not written"):
        to_json(replace(WHOLE, unread=("attempt-2.created.json",)))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{}", '{"schema": "o/1"}', f'{{"schema": "{SCHEMA}"}}', b"\xff\xfe", '{"schema": 1', "[" * 9999],
)  # fmt: skip
def test_text_that_is_no_record_raises_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_record(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


OPTIONAL = [f.name for f in fields(Record) if f.name not in {"run_name", "schema"}]


@given(st.dictionaries(st.sampled_from(OPTIONAL), JSON, max_size=4), st.data())
def test_any_value_under_any_key_is_read_or_refused(change: dict[str, Any], data: st.DataObject) -> None:
    attempt = data.draw(st.dictionaries(st.sampled_from([f.name for f in fields(Attempt)]), JSON, max_size=3))
    document = json.loads(to_json(WHOLE))
    document["attempts"][0] |= attempt
    try:
        record = read_record(json.dumps(document | change))
    except ValueError:
        return
    assert record.run_name == WHOLE.run_name
    assert record.spec_digest == WHOLE.spec_digest or "spec_digest" in change


def test_a_torn_document_is_an_unknown_attempt() -> None:
    record = unreadable(run_name="a", number=3, name="attempt-3.json", reason="not JSON")
    assert (record.run_name, record.target) == ("a", "unknown")
    assert (record.last.number, record.last.outcome) == (3, "unknown")
    assert record.last.reason == "attempt-3.json cannot be read: not JSON"
    assert record.unread == ("attempt-3.json",)
