"""Learning rates that destroy the weights or train nothing, and schedules that end before the run."""

from __future__ import annotations

import pytest

from tests.checks.factory import DROP, ids, problems, spec
from xsft.checks.schedule import SCHEDULE
from xsft.checks.schedule import check_learning_rate as check


@pytest.mark.parametrize(("rate", "lora", "is_high"), [(1e-3, False, False), (2e-3, False, True), (2e-3, True, False)])
def test_learning_rate_above_the_usual_range_is_a_warning(rate: float, lora: bool, is_high: bool) -> None:
    adapters = {"lora": {"rank": 8, "alpha": 16}} if lora else {}
    reported = problems(check, spec(train={"learning_rate": rate}, **adapters))
    assert [p.id for p in reported] == (["learning-rate-high"] if is_high else [])
    assert [p.where for p in reported] == (["train.learning_rate"] if is_high else [])


def test_random_weights_and_local_runs_accept_any_rate() -> None:
    assert ids(check, spec(train={"learning_rate": 0.1}, model={"checkpoint": DROP})) == set()
    assert ids(check, spec(train={"learning_rate": 0.1}, target="local")) == set()


def test_schedule_that_ends_before_the_run_is_a_warning() -> None:
    (problem,) = problems(check, spec(overrides={"maxtext": {SCHEDULE: 100}}))
    assert (problem.id, problem.severity) == ("schedule-ends-early", "warning")
    assert "the last 400 of 500 steps train nothing" in problem.message
    for length in (500, 900, -1):
        assert ids(check, spec(overrides={"maxtext": {SCHEDULE: length}})) == set()


def test_learning_rate_that_trains_nothing_is_reported() -> None:
    adapters = {"lora": {"rank": 8, "alpha": 16}}
    assert ids(check, spec(train={"learning_rate": 5e-6}, **adapters)) == {"learning-rate-low"}
    assert ids(check, spec(train={"learning_rate": 5e-6})) == set()
    assert ids(check, spec(train={"learning_rate": 1e-9})) == {"learning-rate-low"}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("adam_b1", 1.5, {"optimizer-value"}),
        ("adam_b2", 1.0, {"optimizer-value"}),
        ("adam_eps", 0.0, {"optimizer-value"}),
        ("adam_b1", 0.0, set()),
        ("adam_eps", 1e-8, set()),
        ("warmup_steps_fraction", 0.99, {"warmup-long"}),
        ("warmup_steps_fraction", 0.1, set()),
        ("dtype", "float16", {"float16"}),
        ("dropout_rate", 1.0, {"no-op-key"}),
        ("adam_weight_decay", 100, {"weight-decay-high"}),
        ("adam_weight_decay", 1, set()),
        ("learning_rate_final_fraction", 5, {"learning-rate-grows"}),
    ],
)
def test_optimizer_values_out_of_range_are_reported(key: str, value: float | str, expected: set[str]) -> None:
    assert ids(check, spec(overrides={"maxtext": {key: value}})) == expected


def test_dropout_of_1_is_reported_if_the_model_uses_it() -> None:
    drop = {"overrides": {"maxtext": {"dropout_rate": 1.0}}}
    assert ids(check, spec(**drop, model={"name": "a-model"})) == {"optimizer-value"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"opt_type": "sgd"}, {"learning-rate-low"}),
        ({"opt_type": "muon"}, set()),
        ({"adam_eps": 1}, {"learning-rate-low"}),
        ({"adam_eps": 1e-6}, set()),
        ({"dropout_rate": 0.1}, {"no-op-key"}),
        ({"dropout_rate": 0.0}, set()),
    ],
)
def test_optimizer_that_changes_nothing_is_reported(keys: dict[str, object], expected: set[str]) -> None:
    assert ids(check, spec(overrides={"maxtext": keys})) == expected
    assert ids(check, spec(train={"learning_rate": 0.01}, overrides={"maxtext": {"opt_type": "sgd"}})) == set()
