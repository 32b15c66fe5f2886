from __future__ import annotations

from typing import Any

import pytest

from tests.evaluation.factory import INPUTS, inputs
from xsft.evaluation.inputs import directory_of, turn
from xsft.workers.evaluation_verdict import AnswerPattern


@pytest.mark.parametrize(
    "change",
    [
        {"training_digest": "1" * 64},
        {"step": 61},
        {"prompts": (turn("What is 2 plus 2?"),)},
        {"prompts": None},
        {"max_new_tokens": 9},
        {"rows": 1},
        {"held_out": {"hf_eval_split": "test"}},
        {"require": (AnswerPattern(prompt=0, matches="2"),)},
        {"max_eval_loss": 1.0},
    ],
)
def test_digest_changes_with_each_input_of_the_result(change: dict[str, Any]) -> None:
    assert inputs(**change).digest != INPUTS.digest


def test_folder_name_contains_the_digest() -> None:
    found = directory_of(INPUTS, output="/out/", run_name="tiny-evaluate")
    assert found == f"/out/tiny-evaluate/{INPUTS.digest[:12]}"
