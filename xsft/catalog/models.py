"""The models that MaxText trains, with the facts that checks need. Pure.

source: maxtext@0.2.5 maxtext/configs/models/*.yml, maxtext/configs/types.py, maxtext/utils/globals.py;
tests/catalog/test_models.py compares all of it with the installed MaxText.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from msgspec import Struct

from xsft.catalog.data import catalog_text, toml
from xsft.catalog.releases import DEFAULT

LORA_VERIFIED = ("llama3.1", "qwen3", "mistral", "deepseek2", "gemma2", "gemma3", "gemma4", "olmo3", "gpt3", "gpt-oss")
"""Prefixes of models with their own LoRA pattern; source: maxtext@0.2.5
maxtext/configs/post_train/lora_module_path.yml.
"""
TUNED = ("-it", "-Instruct", "-Thinking", "-Think", "-Coder")
"""Parts of Hugging Face names that mark instruction-tuned weights."""


class CatalogModel(Struct, frozen=True, kw_only=True):
    """One model_name, with the numbers of MaxText 0.2.5."""

    name: str
    params_b: float | None
    """Parameters in 1e9; None if not computed."""
    active_b: float | None
    """Parameters in 1e9 that act on one token; equals params_b for dense models."""
    emb: int
    """Embedding width; by default it must be a multiple of the fsdp axis (gpt-oss: 2880)."""
    layers: int
    q_heads: int
    kv_heads: int
    experts: int
    """Number of experts; 0 for a dense model."""
    experts_per_token: int
    moe_dim: int
    vocab: int
    tied: bool
    """Whether the output layer shares the embedding table."""
    hf_id: str | None
    """Repository of its weights, which 0.2.1+ takes as default tokenizer; None: MaxText names none."""
    tokenizer_family: str | None
    built_in: bool
    """False: MaxText has no configuration for the name and would silently build its small default model."""
    unscanned: bool
    """scan_layers must be False (gemma4-e2b/e4b share key-value layers, Qwen3-VL adds vision between layers)."""
    lora_verified: bool
    """MaxText has a LoRA pattern for this model; False: it uses a general one, which may match no module."""
    lora_module_path: str
    """Value to set for lora.lora_module_path if MaxText's own choice fails; empty: leave it to MaxText."""

    @property
    def moe(self) -> bool:
        return self.experts > 0

    @property
    def converts_tuned_weights(self) -> bool:
        """Return whether the hub's weights are instruction-tuned although the name does not say so (`gemma3-4b` is
        gemma-3-4b-it).
        """
        named = any(mark.lower() in self.name.lower() for mark in TUNED)
        return not named and any(mark in (self.hf_id or "") for mark in TUNED)


@cache
def model(name: str) -> CatalogModel:
    """Return the model. Raises ValueError, with similar names, for a model_name that MaxText 0.2.5 does not have."""
    rows = toml("models.toml")
    if name not in rows["models"]:
        close = suggest(name)
        hint = f"Did you mean {', '.join(close)}?" if close else f"Known: {', '.join(names())}."
        raise ValueError(f"{name!r} is not a model of MaxText. {hint}")
    return _model_of_row(name, row=rows["models"][name], lora_paths=rows["lora_module_paths"])


def names() -> tuple[str, ...]:
    """Return every model_name of MaxText 0.2.5, except `default`."""
    return tuple(toml("models.toml")["models"])


def suggest(name: str) -> tuple[str, ...]:
    """Return up to three similar model names; for a Hugging Face id (`Qwen/Qwen3-8B`), the models it converts to."""
    rows = toml("models.toml")["models"]
    converted = [model_name for model_name, row in rows.items() if row.get("hf_id", "-").lower() == name.lower()]
    short_name = name.lower().rpartition("/")[2].replace("_", "-")
    return tuple(converted or get_close_matches(short_name, rows, n=3, cutoff=0.6))


@cache
def pins(name: str, *, version: str = DEFAULT) -> Mapping[str, object]:
    """Return the keys that the model's own configuration sets in this release, with values; empty if it has none.

    MaxText refuses another value for such a key unless override_model_config=True. source: maxtext@0.2.5
    maxtext/configs/pyconfig.py validate_no_keys_overridden_twice.
    """
    # Only the model's own line is parsed: the file has a row for each model.
    lines = catalog_text("model_pins.jsonl")
    start = lines.find(f'{{"model":"{name.replace("-Instruct", "")}",')
    if start < 0:
        return {}
    pinned: dict[str, object] = json.loads(lines[start : lines.index("\n", start)])
    del pinned["model"]
    changes = _earlier_pins().get(version, {}).get(name, {})  # None: that release does not set the key
    return {key: setting for key, setting in {**pinned, **changes}.items() if setting is not None}


@cache
def _earlier_pins() -> Mapping[str, Mapping[str, Mapping[str, object]]]:
    """Return release -> model -> the keys that it sets otherwise than in the default release; None: it does not set the
    key. Lists are left out. `make maxtext-release` writes them from each release's configs/models/*.yml."""
    rows = map(json.loads, catalog_text("earlier_pins.jsonl").splitlines())
    return {row.pop("release"): row for row in rows}


def context_length(name: str) -> int | None:
    """Return the number of positions that the model was trained for; None if unknown."""
    if pinned := pins(name).get("max_position_embeddings") or pins(name).get("trainable_position_size"):
        return int(str(pinned))
    lengths: dict[str, int] = toml("models.toml")["context"]
    prefixes = [prefix for prefix in lengths if name.startswith(prefix)]
    return lengths[max(prefixes, key=len)] if prefixes else None


def _model_of_row(name: str, *, row: Mapping[str, Any], lora_paths: Mapping[str, str]) -> CatalogModel:
    """Return the model; defaults are base.yml's. source: maxtext@0.2.5 maxtext/configs/base.yml."""
    pinned: Mapping[str, Any] = pins(name)
    experts = pinned.get("num_experts", 0)
    # Gemma 2's configuration counts pairs of a local and a global layer.
    layers_per_block = 2 if pinned.get("decoder_block") == "gemma2" else 1
    # source: maxtext@0.2.5 maxtext/configs/types.py:4278 and :5058; two vision models set it in their own yml.
    unscanned = name in ("gemma4-e2b", "gemma4-e4b") or pinned.get("scan_layers") is False
    unscanned = unscanned or bool(pinned.get("deepstack_visual_indexes_for_vit"))
    params = row.get("params_b")
    return CatalogModel(
        name=name,
        params_b=_float(params),
        active_b=_float(row.get("active_b", params)),
        emb=pinned.get("base_emb_dim", 2048),
        layers=pinned.get("base_num_decoder_layers", 16) * layers_per_block,
        q_heads=pinned.get("base_num_query_heads", 16),
        kv_heads=pinned.get("base_num_kv_heads", 16),
        experts=experts,
        experts_per_token=pinned.get("num_experts_per_tok", 1) if experts else 0,
        moe_dim=pinned.get("base_moe_mlp_dim", 0),
        vocab=pinned.get("vocab_size", 32_000),
        tied=bool(pinned.get("logits_via_embedding", False)),
        hf_id=row.get("hf_id"),
        tokenizer_family=row.get("family"),
        built_in=bool(pinned),
        unscanned=unscanned,
        lora_verified=name.startswith(LORA_VERIFIED),
        lora_module_path=lora_paths[row["lora"]] if "lora" in row else "",
    )


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
