"""The sizes of a model, its configuration changed by command-line keys, and the axes of its mesh. Pure.

source: maxtext@0.2.5 configs/base.yml, configs/models/*.yml; tests/catalog/test_arrays.py compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from xsft.catalog.layers import Sizes
from xsft.catalog.models import pins
from xsft.catalog.releases import DEFAULT

Axes = Mapping[str, int]
"""Axis name (`fsdp`) -> ways it is split; -1 if that is left open."""

DEFAULT_AXES: Mapping[str, Axes] = {"ici": {"fsdp": -1}, "dcn": {"data": -1}}
"""MaxText's default axes; every other axis is 1. source: maxtext@0.2.5 configs/base.yml"""

_AXIS = re.compile(r"(ici|dcn)_(\w+)_parallelism")
DEFAULTS: Mapping[str, int] = MappingProxyType(
    {
        "vocab_size": 32_000,
        "logits_via_embedding": 0,
        "base_emb_dim": 2048,
        "base_num_decoder_layers": 16,
        "base_num_query_heads": 16,
        "base_num_kv_heads": 16,
        "head_dim": 128,
        "base_mlp_dim": 7168,
        "base_moe_mlp_dim": -1,
        "num_experts": 1,
        "shared_experts": 0,
        "routed_bias": 0,
        "first_num_dense_layers": 0,
        "q_lora_rank": 0,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "use_indexer": 0,
        "indexer_n_heads": 64,
        "indexer_head_dim": 128,
        "use_post_attn_norm": 0,
        "use_post_ffw_norm": 0,
        "inhomogeneous_layer_cycle_interval": 1,
        "interleave_moe_layer_step": 1,
        "global_head_dim": 0,
        "global_num_kv_heads": 0,
        "share_kv_projections": 0,
        "gdn_conv_kernel_dim": 4,
        "gdn_key_head_dim": 128,
        "gdn_value_head_dim": 128,
        "gdn_num_key_heads": 16,
        "gdn_num_value_heads": 32,
    }
)
"""Keys that determine which arrays exist, with MaxText's defaults; a switch is 0 or 1."""

OTHER_KEYS: Mapping[str, object] = MappingProxyType(
    {
        "attention_sink": False,
        "attention_type": "global",
        "dcn_pipeline_parallelism": 1,
        "engram_layers": [],
        "fused_mlp": False,
        "fused_qkv": False,
        "ici_pipeline_parallelism": 1,
        "mhc_expansion_rate": 1,
        "mtp_num_layers": 0,
        "prefuse_moe_weights": False,
        "qk_norm_with_scale": True,
        "trainable_position_size": -1,
        "use_m3_model": False,
        "use_qk_norm": False,
    }
)
"""Keys that change arrays in ways not computed here, with MaxText's defaults.

source: every switch of maxtext@0.2.5 was changed for qwen3-0.6b and the arrays compared; the others were read in its
code.
"""


CHANGES_ARRAYS = frozenset(
    {*DEFAULTS, *OTHER_KEYS, "decoder_block", "global_parameter_scale", "override_model_config"}
) - {"ici_pipeline_parallelism", "dcn_pipeline_parallelism"}
"""Keys that a conversion needs as well as training: without them it would write the arrays of the unchanged model. It
has no mesh.
"""


def mesh_axes(keys: Mapping[str, object], group: str, *, total: int) -> Axes:
    """Return the axes of one group (`ici`, `dcn`) with -1 resolved against `total`; it stays -1 if the others do not
    divide it. source: maxtext@0.2.5 utils/max_utils.py fill_unspecified_mesh_axes
    """
    sizes = given_axes(keys, group)
    product_of_given = prod(size for size in sizes.values() if size != -1)
    open_axis = total // product_of_given if product_of_given > 0 and total % product_of_given == 0 else -1
    return {axis: open_axis if size == -1 else size for axis, size in sizes.items()}


def given_axes(keys: Mapping[str, object], group: str) -> Axes:
    """Return the axes of one group as MaxText's keys and its defaults give them."""
    named = {axis[2]: value for key, value in keys.items() if (axis := _AXIS.fullmatch(key)) and axis[1] == group}
    return {**DEFAULT_AXES[group], **{axis: _axis_size(value) for axis, value in named.items()}}


def _axis_size(value: object) -> int:
    """Return an axis as a number; an invalid one counts as 1, because another check rejects it."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 1


def sizes(name: str, keys: Mapping[str, object], *, release: str = DEFAULT) -> Sizes | None:
    """Return `DEFAULTS` updated by the model's own configuration in the release, then by these `keys`; None if a
    value is not an integer, or a scale changes all sizes."""
    if "global_parameter_scale" in keys:
        return None
    pinned = pins(name, version=release)
    numbers = {key: _as_integer(keys.get(key, pinned.get(key, default))) for key, default in DEFAULTS.items()}
    certain = {key: value for key, value in numbers.items() if value is not None}
    return certain if len(certain) == len(numbers) else None


def decoder_block(name: str, keys: Mapping[str, object]) -> str:
    return str(keys.get("decoder_block", pins(name).get("decoder_block", "llama2")))


def is_rebuilt(name: str, keys: Mapping[str, object], *, release: str) -> bool:
    """Return whether the model has arrays that do not follow from its sizes and kind of decoder."""
    defaults = {**OTHER_KEYS, **pins(name, version=release)}
    is_changed = any(key in keys and str(keys[key]).lower() != str(defaults[key]).lower() for key in OTHER_KEYS)
    return is_changed or defaults["mhc_expansion_rate"] != 1


def _as_integer(value: object) -> int | None:
    """Return an integer as MaxText reads it (`True` and `"1"` are 1); None for any other value."""
    switch = {"true": 1, "false": 0}.get(str(value).lower())
    try:
        return int(str(value)) if switch is None else switch
    except ValueError:
        return None


COUNTS = ("base_num_decoder_layers", "num_experts", "first_num_dense_layers")
ONLY_COUNTS = ("qwen2.5-", "qwen3-", "gpt-oss-", "olmo3-", "deepseek2-", "deepseek3")
"""Starts of models whose conversion takes only COUNTS from the named model; that of all others takes sizes, too.
source: maxtext@0.2.5 checkpoint_conversion/utils/param_mapping.py."""
WITH_VISION = ("qwen3-vl-", "qwen3-omni-")
"""Starts of models among them whose conversion takes sizes, too."""


def changed_sizes(name: str, keys: Mapping[str, object], *, release: str = DEFAULT) -> tuple[str, ...]:
    """Return the keys that give the model other sizes than its configuration."""
    defaults = {**DEFAULTS, **pins(name, version=release)}
    return tuple(key for key in DEFAULTS if key in keys and keys[key] != defaults[key])


def misread_by_converter(name: str, keys: Mapping[str, object], *, release: str) -> tuple[str, ...]:
    """Return the changed sizes that `to_maxtext` takes from the named model all the same."""
    changed = changed_sizes(name, keys, release=release)
    if name.startswith(ONLY_COUNTS) and not name.startswith(WITH_VISION):
        return tuple(key for key in changed if key in COUNTS)
    return changed
