"""Numbers beyond every machine: each gives a problem or passes, and none a traceback."""

from __future__ import annotations

import math

import pytest

from tests.checks.factory import run_of, spec
from xsft.base.errors import SpecError
from xsft.checks.facts import Facts
from xsft.checks.overrides import PATHS
from xsft.checks.subjects import check_run
from xsft.checks.trainer_keys import LARGEST, number
from xsft.spec.explain import read_spec

EXTREMES = (1e308, -1e308, 2**63, -(2**63), math.nan, math.inf, "1e400")


@pytest.mark.parametrize("key", sorted(PATHS))
def test_overrides_of_any_size_are_checked_without_an_error(key: str) -> None:
    """`per_device_batch_size: 1.0e+307` times the devices was infinite."""
    for value in EXTREMES:
        check_run(run_of(spec(overrides={"maxtext": {key: value}})), Facts())


def test_number_is_finite_and_bounded() -> None:
    assert [number(value) for value in EXTREMES] == [*(LARGEST, -LARGEST, LARGEST, -LARGEST, None, LARGEST, LARGEST)]


@pytest.mark.parametrize(
    "where",
    [
        *("train.steps", "train.per_device_batch_size", "train.max_target_length", "train.checkpoint_period"),
        *("train.gradient_accumulation_steps", "data.num_epoch", "data.rows"),
    ],
)
@pytest.mark.parametrize("value", ["9200000000000000000", "4611686018427387904"])
def test_impossible_numbers_are_out_of_range(where: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_spec(WORKLOAD, settings=(f"{where}={value}",))
    assert [(p.id, p.where) for p in caught.value.problems] == [("out-of-range", where)]


@pytest.mark.parametrize("setting", ["train.steps=2147483647", "train.max_target_length=10485760"])
def test_largest_possible_numbers_are_accepted(setting: str) -> None:
    read_spec(WORKLOAD, settings=(setting,))


WORKLOAD = """\
name: a
target: local
model: {name: default}
data: {hf_path: json, hf_train_files: a.json, columns: [messages]}
train: {steps: 10, per_device_batch_size: 1}
"""
