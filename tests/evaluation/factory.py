"""Evaluations for tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from xsft.evaluation.inputs import EvaluationInputs, turn

INPUTS = EvaluationInputs(
    training="tiny",
    training_digest="0" * 64,
    step=60,
    release="0.2.5",
    max_new_tokens=8,
    prompts=(turn("What is 1 plus 1?"),),
)


def inputs(**changes: Any) -> EvaluationInputs:
    return replace(INPUTS, **changes)
