"""Both spellings of RoPE in config.json, from either of them."""

from __future__ import annotations

from typing import Any

import pytest

from xsft.workers.model_files import with_both_spellings

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LOCAL = {"rope_type": "default", "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("four", "five"),
    [
        ({"rope_theta": 5e5, "rope_scaling": LLAMA3}, {**LLAMA3, "rope_theta": 5e5}),
        ({"rope_theta": 1e6, "rope_scaling": None}, {"rope_type": "default", "rope_theta": 1e6}),
        (
            {"rope_theta": 1e4, "partial_rotary_factor": 0.25, "rope_scaling": None},
            {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
        ),
        (
            {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
            {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": LOCAL,
            },
        ),
    ],
    ids=["scaled as Llama 3", "plain", "partial", "Gemma 3, a kind for each layer"],
)
def test_each_spelling_is_completed_by_the_other(four: dict[str, Any], five: dict[str, Any]) -> None:
    both = {**four, "rope_parameters": five}
    assert with_both_spellings(four) == both
    assert with_both_spellings({"rope_parameters": five}) == both
    assert with_both_spellings(both) == both
    assert with_both_spellings({"text_config": four}) == {"text_config": both}


def test_older_word_for_the_type_is_understood() -> None:
    found = with_both_spellings({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}})
    assert found["rope_parameters"] == {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}


def test_configuration_without_rope_stays_as_it_is() -> None:
    assert with_both_spellings({"model_type": "gpt2"}) == {"model_type": "gpt2"}
