from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.trainers.record import SCHEMA, Attempt, Record, changed_keys, complete_record, merged, to_json

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
def test_a_record_survives_its_file(losses: dict[int, float], attempts: int) -> None:
    record = Record(
        run_name="a",
        spec_digest="d",
        spec={"train": {"steps": 3}},
        steps=3,
        attempts=tuple(attempt(number=n + 1) for n in range(attempts)),
        losses=losses,
    )
    assert complete_record(to_json(record)) == record


def test_a_newer_xsft_may_add_keys() -> None:
    record = Record(run_name="a", spec_digest="d", spec={}, steps=3, attempts=(attempt(),), losses={})
    document = json.loads(to_json(record)) | {"new": 1}
    document["attempts"][0]["newer"] = 2
    assert complete_record(json.dumps(document)) == record


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"schema": "other/1"}', f'{{"schema": "{SCHEMA}"}}'])
def test_what_is_not_a_record_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        complete_record(text)


def test_steps_may_grow_and_nothing_else() -> None:
    old = {"train": {"steps": 3, "learning_rate": 0.1, "checkpoint_period": 1}, "output": "/a"}
    new = {"train": {"steps": 9, "learning_rate": 0.2, "checkpoint_period": 5}, "output": "/b", "lora": {"rank": 4}}
    assert changed_keys(old, new) == ("lora.rank: unset -> 4", "train.learning_rate: 0.1 -> 0.2")


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.integers(), st.dictionaries(st.text(), st.integers()))))
def test_a_workload_does_not_differ_from_itself(spec: dict[str, object]) -> None:
    assert changed_keys(spec, spec) == ()


@given(LOSSES, LOSSES, st.integers(0, 10**6))
def test_a_step_done_again_counts_with_its_later_loss(
    before: dict[int, float], later: dict[int, float], start: int
) -> None:
    whole = merged(before, later, resumed_from=start)
    assert all(whole[step] == loss for step, loss in later.items())
    assert {step for step in whole if step not in later} == {
        step for step in before if step <= start and step not in later
    }


def test_the_step_of_the_checkpoint_was_not_lost() -> None:
    assert merged({1: 9.0, 2: 8.0, 3: 7.0}, {3: 6.0}, resumed_from=2) == {1: 9.0, 2: 8.0, 3: 6.0}
    assert merged({1: 9.0}, {1: 8.0}, resumed_from=None) == {1: 8.0}


def test_1_is_another_value_than_true_on_resume() -> None:
    one, true = ({"overrides": {"maxtext": {"a": value, "b": [value]}}} for value in (1, True))
    assert changed_keys(one, true) == ("overrides.maxtext.a: 1 -> true", "overrides.maxtext.b: [1] -> [true]")
    assert changed_keys(one, {"overrides": {"maxtext": {"a": 1.0, "b": [1.0]}}}) == ()
