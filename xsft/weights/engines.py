"""The models that MaxText's exporter knows, and the type that config.json gives each, by which an engine recognises it.
Pure.

source: maxtext@0.2.5 checkpoint_conversion/utils/hf_model_configs.py HF_MODEL_CONFIGS; tests/contract/test_export.py
compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MODEL_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "gemma2-": "gemma2",
        "gemma3-": "gemma3",
        "gemma4-": "gemma4",
        "qwen2.5-": "qwen2",
        "qwen3-": "qwen3",
        "qwen3-30b-a3b": "qwen3_moe",
        "qwen3-235b-a22b": "qwen3_moe",
        "qwen3-480b-a35b": "qwen3_moe",
        "qwen3-vl-": "qwen3_vl",
        "qwen3-vl-30b-a3b": "qwen3_vl_moe",
        "qwen3-omni-": "qwen3_omni_moe",
        "qwen3-next-": "qwen3_next",
        "qwen3.5-": "qwen3_5_moe",
        "llama3.1-": "llama",
        "deepseek2-": "deepseek_v2",
        "deepseek3-": "deepseek_v3",
        "deepseek3.2-": "deepseek_v32",
        "deepseek4-": "deepseek_v4",
        "gpt-oss-": "gpt_oss",
        "mixtral-": "mixtral",
        "olmo3-": "olmo3",
        "weaver-": "weaver_omni",
    }
)
"""Start of the model's name -> type; the longest start that fits counts."""


UNLOADED: Mapping[str, str] = MappingProxyType(
    {
        "gpt_oss": "it takes gpt-oss only with MXFP4 experts: `ValueError: Received 6 parameters not in model`",
        "gemma3": "it expects the names of Gemma 3's own files: `KeyError: 'language_model'`",
    }
)
"""Types whose exports mlx-lm cannot load although it has the architecture, and its own words. source: mlx-lm@0.32.2;
tests/contract/test_weights_round.py loads them."""


def model_type(name: str) -> str | None:
    """Return the type of a model of MaxText; None if it is unknown."""
    starts = [start for start in MODEL_TYPES if name.startswith(start)]
    return MODEL_TYPES[max(starts, key=len)] if starts else None
