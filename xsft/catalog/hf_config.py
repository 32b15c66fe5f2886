"""Fields of a Hugging Face config.json: what MaxText computes in their place, and whether weights are quantised. Pure.

source: maxtext@0.2.5 configs/base.yml, layers/attentions.py (RoPE), layers/embeddings.py LLaMARotaryEmbedding,
models/gemma2.py, models/gemma3.py; tests/contract/test_export.py holds it against MaxText's copies of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from xsft.catalog.models import pins
from xsft.catalog.releases import DEFAULT

FIELDS: Mapping[str, tuple[str, object]] = MappingProxyType(
    {
        "rope_theta": ("rope_max_timescale", 10_000),
        "rms_norm_eps": ("normalization_layer_epsilon", 1e-5),
        "tie_word_embeddings": ("logits_via_embedding", False),
        "attention_bias": ("attention_bias", False),
        "sliding_window": ("sliding_window_size", 0),
        "attn_logit_softcapping": ("attn_logits_soft_cap", 0),
        "final_logit_softcapping": ("final_logits_soft_cap", 0),
        "norm_topk_prob": ("norm_topk_prob", False),
        "routed_scaling_factor": ("routed_scaling_factor", 1.0),
        "num_experts_per_tok": ("num_experts_per_tok", None),
        "rope_local_base_freq": ("local_rope_max_timescale", None),
        "swiglu_limit": ("mlp_activations_limit", None),
        "n_group": ("n_routing_groups", None),
        "topk_group": ("topk_routing_group", None),
        "hidden_size": ("base_emb_dim", None),
        "intermediate_size": ("base_mlp_dim", None),
        "moe_intermediate_size": ("base_moe_mlp_dim", None),
        "num_hidden_layers": ("base_num_decoder_layers", None),
        "num_attention_heads": ("base_num_query_heads", None),
        "num_key_value_heads": ("base_num_kv_heads", None),
        "head_dim": ("head_dim", None),
        "num_experts": ("num_experts", None),
        "num_local_experts": ("num_experts", None),
        "n_routed_experts": ("num_experts", None),
        "n_shared_experts": ("shared_experts", None),
        "first_k_dense_replace": ("first_num_dense_layers", None),
        "q_lora_rank": ("q_lora_rank", None),
        "kv_lora_rank": ("kv_lora_rank", None),
        "qk_nope_head_dim": ("qk_nope_head_dim", None),
        "qk_rope_head_dim": ("qk_rope_head_dim", None),
        "v_head_dim": ("v_head_dim", None),
        "index_n_heads": ("indexer_n_heads", None),
        "index_head_dim": ("indexer_head_dim", None),
        "linear_conv_kernel_dim": ("gdn_conv_kernel_dim", None),
        "linear_key_head_dim": ("gdn_key_head_dim", None),
        "linear_value_head_dim": ("gdn_value_head_dim", None),
        "linear_num_key_heads": ("gdn_num_key_heads", None),
        "linear_num_value_heads": ("gdn_num_value_heads", None),
    }
)
"""Field -> MaxText's key and its default; None: the field counts only where the model's own configuration sets the
key. 0 stands for null."""
TIED = "tie_word_embeddings"
WRITTEN = (
    *("rope_theta", "rms_norm_eps", TIED, "num_experts_per_tok"),
    *("attn_logit_softcapping", "final_logit_softcapping"),
)
"""Fields that an export writes as MaxText computed with them; the sizes and switches of the source stay."""

LLAMA3_SCALING = {"factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}
YARN = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow")
YARN_KEYS = ("rope_factor", "original_max_position_embeddings", "beta_fast", "beta_slow")
OWN_ROPE = ("gemma4", "deepseek4")
"""Starts of decoder blocks whose RoPE differs between layers."""
ACTIVATIONS = {"silu": "silu", "gelu": "gelu_pytorch_tanh", "sigmoid": "silu"}
"""First of MaxText's mlp_activations -> the function in config.json; gpt-oss writes out silu as a sigmoid."""


def computed_fields(name: str, keys: Mapping[str, object], *, version: str = DEFAULT) -> dict[str, Any]:
    """Return the fields as this release of MaxText computes the model `name` with these keys of the workload, as far as
    they are known. RoPE's own fields are named `rope.factor`."""
    settings: dict[str, Any] = {**pins(name, version=version), **keys}
    all_fields = {field: settings.get(key, default) for field, (key, default) in FIELDS.items()}
    fields = {field: value for field, value in all_fields.items() if value is not None}
    fields |= {**_of_family(name, settings, fields), **_rope(name, settings)}
    return {field: value for field, value in fields.items() if value is not None}


def written_fields(name: str, keys: Mapping[str, object], *, version: str) -> dict[str, Any]:
    """Return the fields that an export writes into the source's config.json where they differ from it."""
    fields = computed_fields(name, keys, version=version)
    return {field: fields[field] for field in WRITTEN if field == TIED or fields.get(field)}


def _of_family(name: str, settings: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that follow from several keys, or that a family counts in its own way."""
    changed: dict[str, Any] = {}
    block = str(settings.get("decoder_block", ""))
    if block.startswith("qwen3") and "num_experts" in settings:
        changed["intermediate_size"] = None  # MaxText has the experts' own size there
    if "routed_score_func" in settings:
        changed["scoring_func"] = settings["routed_score_func"]
        changed["norm_topk_prob"] = None  # the function decides
    activation = settings.get("mlp_activations", ("silu",))[0]
    if activation in ACTIVATIONS:
        changed["hidden_act"] = changed["hidden_activation"] = ACTIVATIONS[activation]
    if block == "gemma2" and "num_hidden_layers" in fields:
        changed["num_hidden_layers"] = 2 * fields["num_hidden_layers"]
    if block in ("gemma2", "gemma3") and "head_dim" in settings:
        changed["query_pre_attn_scalar"] = settings["head_dim"]
    if name == "gemma3-27b":
        changed["query_pre_attn_scalar"] = settings["base_emb_dim"] // settings["base_num_query_heads"]
    return changed


def _rope(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(settings.get("rope_type", "default"))
    if str(settings.get("decoder_block", "")).startswith(OWN_ROPE):
        return {}
    if kind.startswith("llama3.1") or name.startswith("llama3.1"):
        if settings.get("rope_use_scale", True) is False:
            return {"rope.rope_type": "default"}
        return {"rope.rope_type": "llama3", **{f"rope.{field}": value for field, value in LLAMA3_SCALING.items()}}
    if kind == "yarn":
        values = {f"rope.{field}": settings.get(key) for field, key in zip(YARN, YARN_KEYS, strict=True)}
        return {"rope.rope_type": "yarn", **{field: value for field, value in values.items() if value is not None}}
    factor = settings.get("rope_linear_scaling_factor", 1)
    if factor != 1:
        return {"rope.rope_type": "linear", "rope.factor": factor}
    return {"rope.rope_type": "default"}


def source_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the language model in a config.json that have one value each, in either spelling of RoPE.

    `tie_word_embeddings` is left out of models of text and images, which have one of their own.
    """
    section: Mapping[str, Any] = config
    for name in ("text_config", "language_config", "llm_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping):
            section = {field: value for field, value in inner.items() if field != "tie_word_embeddings"}
            break
    fields: dict[str, Any] = {
        name: value for name, value in section.items() if isinstance(value, int | float | str) or value is None
    }
    if section.get("use_sliding_window") is False:
        fields["sliding_window"] = 0
    if fields.get("head_dim") is None and "kv_lora_rank" not in fields and fields.get("num_attention_heads"):
        fields["head_dim"] = fields.get("hidden_size", 0) // fields["num_attention_heads"]
    if "model_type" in config:
        fields["model_type"] = config["model_type"]
    return {**fields, **_source_rope(section)}


def _source_rope(section: Mapping[str, Any]) -> dict[str, Any]:
    parameters = section.get("rope_parameters") or {}
    full_attention = parameters.get("full_attention", parameters)
    local = parameters.get("sliding_attention") or {}
    scaling = {**full_attention, **(section.get("rope_scaling") or {})}
    theta = full_attention.get("rope_theta", section.get("rope_theta"))
    if theta is None:
        return {}
    fields = {f"rope.{field}": value for field, value in scaling.items() if isinstance(value, int | float | str)}
    fields["rope.rope_type"] = scaling.get("rope_type", scaling.get("type", "default"))
    if "rope_theta" in local:
        fields["rope_local_base_freq"] = local["rope_theta"]
    return {**fields, "rope_theta": theta}


SCALES = ("_scale_inv", ".weight_scale", "_scales", ".scales", ".qweight", ".qzeros", ".absmax")
"""Ends of the names of arrays beside quantised weights.

source: transformers@4.57 integrations/finegrained_fp8.py (weight_scale_inv), mxfp4.py (_scales), awq.py (qweight,
qzeros, scales), bitsandbytes (absmax); compressed-tensors (weight_scale).
"""
NARROW = ("F8_", "F4", "F6_", "U8", "I8")
"""Types of safetensors in which only quantised weights are kept. source: safetensors@0.6 tensor.rs Dtype."""


def quantisation_evidence(config: Mapping[str, Any], *, arrays: Iterable[str], dtypes: Iterable[str] = ()) -> str:
    """Return the evidence of quantisation, for a message; empty if there is none. `arrays`: names in the index or in
    the files' headers."""
    for section in sections(config):
        if method := section.get("quantization_config"):
            name = method.get("quant_method") if isinstance(method, Mapping) else None
            return f"config.json has quantization_config{f' ({name})' if isinstance(name, str) else ''}"
    if scale := next((name for name in arrays if name.endswith(SCALES)), None):
        return f"the array {scale} contains scales"
    if narrow := next((name for name in dtypes if name.startswith(NARROW)), None):
        return f"weights are stored as {narrow}"
    return ""


def sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the config and each `…_config` below it, at any depth: models of text and images keep the language model's
    in one (text_config, llm_config, language_config, thinker_config.text_config)."""
    waiting = [config]
    while waiting:
        section = waiting.pop(0)
        yield section
        below = (value for name, value in section.items() if name.endswith("_config"))
        waiting += [below_section for below_section in below if isinstance(below_section, Mapping)]
