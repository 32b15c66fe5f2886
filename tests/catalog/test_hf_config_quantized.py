"""Quantised weights, detected from config.json and from the names and types of arrays."""

from __future__ import annotations

from typing import Any

import pytest

from xsft.catalog.hf_config import quantisation_evidence

FP8 = {"quantization_config": {"quant_method": "fp8"}}


@pytest.mark.parametrize(
    "config",
    [
        FP8,
        {"text_config": FP8},
        {"llm_config": FP8},
        {"language_config": FP8},
        {"thinker_config": {"text_config": FP8}},
        {"vision_config": None, "text_config": FP8},
    ],
)
def test_quantization_config_at_any_depth_is_detected(config: dict[str, Any]) -> None:
    assert quantisation_evidence(config, arrays=()) == "config.json has quantization_config (fp8)"


@pytest.mark.parametrize(
    "config", [{}, {"quantization_config": None}, {"quantization_config": {}}, {"text_config": [FP8]}]
)
def test_plain_weights_are_not_quantized(config: dict[str, Any]) -> None:
    assert quantisation_evidence(config, arrays=("model.norm.weight",), dtypes=("BF16", "F32")) == ""


def test_deeply_nested_config_is_read_without_recursion_error() -> None:
    config: dict[str, Any] = {}
    for _ in range(3000):
        config = {"text_config": config}
    assert quantisation_evidence(config, arrays=()) == ""
