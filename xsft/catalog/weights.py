"""Models whose weights a MaxText release converts from Hugging Face, and exports to it. Pure.

source: maxtext, the tables of each release (release_weights.txt) and runs of tiny models (weights.toml); the types in
config.json: maxtext@0.2.5 checkpoint_conversion/utils/hf_model_configs.py HF_MODEL_CONFIGS, which
tests/contract/test_export.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from msgspec import Struct

from xsft.catalog.data import toml
from xsft.catalog.releases import WeightsStage, at_least, versions, weights_models


class WeightsFailure(Struct, frozen=True, kw_only=True):
    """A reason why a release cannot convert or export a model."""

    why: str
    unscanned_works: bool = False
    """Whether the stage succeeds with scan_layers: false."""
    working_release: str | None = None
    """The newest older release that succeeds."""


def weights_failure(name: str, *, stage: WeightsStage, version: str, scan_layers: bool) -> WeightsFailure | None:
    """Return why the release fails at this stage; None if it succeeds, as far as is known."""
    why = _why(name, stage, version, scan_layers=scan_layers)
    if why is None:
        return None
    older = versions()[: versions().index(version)]
    working = [
        earlier
        for earlier in older
        if earlier[0].isdigit() and _why(name, stage, earlier, scan_layers=scan_layers) is None
    ]
    return WeightsFailure(
        why=why,
        unscanned_works=scan_layers and _why(name, stage, version, scan_layers=False) is None,
        working_release=working[-1] if working else None,
    )


def _why(name: str, stage: WeightsStage, version: str, *, scan_layers: bool) -> str | None:
    if name not in weights_models(version, stage=stage):
        return "MaxText's tables have no names for its arrays"
    for failure in _failures():
        if failure.applies(name, stage, version, scan_layers=scan_layers):
            return failure.why
    return None


class _FailingModels(Struct, frozen=True, kw_only=True):
    """One entry of weights.toml, which explains each field."""

    models: tuple[str, ...]
    stage: WeightsStage
    since: str
    scan_layers: tuple[bool, ...]
    why: str

    def applies(self, name: str, stage: WeightsStage, version: str, *, scan_layers: bool) -> bool:
        same_case = name in self.models and stage == self.stage and scan_layers in self.scan_layers
        return same_case and at_least(version, self.since)


@cache
def _failures() -> tuple[_FailingModels, ...]:
    rows = toml("weights.toml")["failures"]
    lists = ("models", "scan_layers")
    return tuple(_FailingModels(**{**row, **{name: tuple(row[name]) for name in lists}}) for row in rows)


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
