"""Write the position embeddings of a config.json as transformers 4 and transformers 5 name them. Pure, and without any
library: imported by a program that runs in MaxText's environment.

transformers 4 (vLLM, mlx-lm) reads `rope_theta` and `rope_scaling`, and of Gemma 3 `rope_local_base_freq`; transformers
5 reads `rope_parameters`, else those. A reader that does not find its own spelling takes a default, without an error.
source: transformers@4.57.6 and @5.23.0 modeling_rope_utils.py, models/gemma3/configuration_gemma3.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GLOBAL, LOCAL = "full_attention", "sliding_attention"
"""Kinds of layers that have their own parameters in transformers 5."""
TEXT = "text_config"


def with_both_spellings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return config.json with both spellings, in the part of the language model, too."""
    inner = config.get(TEXT)
    texts = {TEXT: with_both_spellings(inner)} if isinstance(inner, Mapping) else {}
    parameters = config.get("rope_parameters")
    if isinstance(parameters, Mapping):
        return {**_as_transformers_4(parameters), **config, **texts}
    if "rope_theta" in config:
        return {**config, "rope_parameters": _as_transformers_5(config), **texts}
    return {**config, **texts}


def _as_transformers_4(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if GLOBAL not in parameters:
        return _flat(parameters)
    found = _flat(parameters[GLOBAL])
    local = parameters.get(LOCAL) or {}
    if "rope_theta" in local:
        found["rope_local_base_freq"] = local["rope_theta"]
    return found


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    scaling = {name: value for name, value in parameters.items() if name not in ("rope_theta", "partial_rotary_factor")}
    outside = {name: parameters[name] for name in ("rope_theta", "partial_rotary_factor") if name in parameters}
    if scaling.get("rope_type", "default") == "default":
        return {**outside, "rope_scaling": None}
    return {**outside, "rope_scaling": scaling}


def _as_transformers_5(config: Mapping[str, Any]) -> dict[str, Any]:
    scaling = dict(config.get("rope_scaling") or {})
    kind = scaling.pop("type", None)
    scaling.setdefault("rope_type", kind or "default")
    parameters = {**scaling, "rope_theta": config["rope_theta"]}
    if "partial_rotary_factor" in config:
        parameters["partial_rotary_factor"] = config["partial_rotary_factor"]
    if "rope_local_base_freq" not in config:
        return parameters
    local = {"rope_type": "default", "rope_theta": config["rope_local_base_freq"]}
    return {GLOBAL: parameters, LOCAL: local}
