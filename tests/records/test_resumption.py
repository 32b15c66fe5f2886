from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.records.document import to_json
from xsft.records.record import SCHEMA, Attempt, Record
from xsft.records.resumption import changed_keys, complete_record, merge_losses

LOSSES = st.dictionaries(st.integers(1, 10**6), st.floats(allow_nan=False), max_size=20)


def attempt(**changes: object) -> Attempt:
    given_ = {
        "number": 1,
        "argv": ("python", "-m", "m"),
        "env": {"A": "b"},
        "log": "/l",
        "started_at": "t",
        "spec_digest": "d",
    }
    return Attempt(**{**given_, **changes})  # type: ignore[arg-type]


@given(LOSSES, st.integers(0, 3))
def test_record_survives_a_round_trip_through_json(losses: dict[int, float], attempts: int) -> None:
    record = Record(
        run_name="a",
        spec_digest="d",
        spec={"train": {"steps": 3}},
        steps=3,
        attempts=tuple(attempt(number=n + 1) for n in range(attempts)),
        losses=losses,
    )
    assert complete_record(to_json(record)) == record


def test_unknown_keys_of_a_newer_xsft_are_ignored() -> None:
    record = Record(run_name="a", spec_digest="d", spec={}, steps=3, attempts=(attempt(),), losses={})
    document = json.loads(to_json(record)) | {"new": 1}
    document["attempts"][0]["newer"] = 2
    assert complete_record(json.dumps(document)) == record


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"schema": "other/1"}', f'{{"schema": "{SCHEMA}"}}'])
def test_text_that_is_no_record_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        complete_record(text)


def test_changed_keys_ignores_steps_and_lists_other_changes() -> None:
    old = {"train": {"steps": 3, "learning_rate": 0.1, "checkpoint_period": 1}, "output": "/a"}
    new = {"train": {"steps": 9, "learning_rate": 0.2, "checkpoint_period": 5}, "output": "/b", "lora": {"rank": 4}}
    assert changed_keys(old, new) == ("lora.rank: unset -> 4", "train.learning_rate: 0.1 -> 0.2")


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.integers(), st.dictionaries(st.text(), st.integers()))))
def test_changed_keys_of_equal_workloads_are_empty(spec: dict[str, object]) -> None:
    assert changed_keys(spec, spec) == ()


@given(LOSSES, LOSSES, st.integers(0, 10**6))
def test_repeated_step_takes_its_later_loss(before: dict[int, float], later: dict[int, float], start: int) -> None:
    merged = merge_losses(before, later, resumed_from=start)
    assert all(merged[step] == loss for step, loss in later.items())
    assert {step for step in merged if step not in later} == {
        step for step in before if step <= start and step not in later
    }


def test_merged_keeps_the_loss_of_the_checkpoint_step() -> None:
    assert merge_losses({1: 9.0, 2: 8.0, 3: 7.0}, {3: 6.0}, resumed_from=2) == {1: 9.0, 2: 8.0, 3: 6.0}
    assert merge_losses({1: 9.0}, {1: 8.0}, resumed_from=None) == {1: 8.0}


def test_changed_keys_distinguishes_1_from_true() -> None:
    first, true = ({"overrides": {"maxtext": {"a": value, "b": [value]}}} for value in (1, True))
    assert changed_keys(first, true) == ("overrides.maxtext.a: 1 -> true", "overrides.maxtext.b: [1] -> [true]")
    assert changed_keys(first, {"overrides": {"maxtext": {"a": 1.0, "b": [1.0]}}}) == ()
