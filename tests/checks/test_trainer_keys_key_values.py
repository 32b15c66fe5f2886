"""Values of overrides that MaxText's parser or model refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.factory import FLAGSHIP, ids, problems, spec
from tests.maxtext import answer
from xsft.catalog.data import catalog_text
from xsft.checks.trainer_keys import check_key_values as check
from xsft.spec.base import Value

DUMP = Path(__file__).parents[1] / "catalog" / "dumps" / "maxtext_types.py"


def told(key: str, value: Value) -> list[str]:
    return [problem.fix for problem in problems(check, spec(overrides={"maxtext": {key: value}}))]


@pytest.mark.parametrize(
    ("key", "value", "fix"),
    [
        ("adam_b1", "many", "Give a number."),
        ("use_multimodal", "maybe", "Give true or false."),
        ("num_vocab_tiling", 1.5, "Give a whole number."),
        ("lr_schedule_type", "linear", "Give one of cosine, wsd."),
        ("warmup_steps_fraction", 100, "Give at most 1."),
        ("attention", "flashh", "Give one of autoselected, dot_product, flash,"),
        ("remat_policy", "fulll", "Give one of none, full, minimal,"),
        ("hf_lora_adapter_path", 7, "Give a text."),
    ],
)
def test_value_of_a_wrong_type_is_reported(key: str, value: Value, fix: str) -> None:
    (given,) = told(key, value)
    assert given.startswith(fix)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("adam_b1", "0.9"),
        ("adam_b1", 1),
        ("use_multimodal", "yes"),
        ("use_multimodal", 0),
        ("num_vocab_tiling", 2.0),
        ("remat_policy", "save_out_proj"),
        ("lr_schedule_type", "wsd"),
        ("xprof_tpu_power_trace_level", 1),
        ("adamw_mask", "bias"),
        ("quantization", None),
        ("nothing_known", "x"),
    ],
)
def test_value_of_the_right_type_has_no_problem(key: str, value: Value) -> None:
    assert told(key, value) == []


def test_values_are_checked_only_for_the_release_of_known_types() -> None:
    wrong = {"overrides": {"maxtext": {"adam_b1": "many"}}}
    assert ids(check, spec(image={"maxtext": "0.2.3"}, **wrong)) == set()
    (problem,) = problems(check, spec(**wrong))
    assert (problem.id, problem.severity, problem.where) == ("maxtext-value", "error", "overrides.maxtext.adam_b1")


def test_flagship_has_no_problem() -> None:
    assert ids(check, spec(FLAGSHIP)) == set()


@pytest.mark.maxtext
def test_key_types_equal_those_of_the_installed_maxtext(maxtext_python: Path) -> None:
    lines = [line for line in catalog_text("key_types.txt").splitlines() if not line.startswith("#")]
    assert answer(maxtext_python, DUMP) == lines
