"""Fields of a Hugging Face config.json, and the keys with which MaxText computes the same. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xsft.catalog.models import pins

FIELDS: Mapping[str, tuple[str, object]] = MappingProxyType(
    {
        "rope_theta": ("rope_max_timescale", 10_000),
        "rms_norm_eps": ("normalization_layer_epsilon", 1e-5),
        "tie_word_embeddings": ("logits_via_embedding", False),
        "num_experts_per_tok": ("num_experts_per_tok", None),
        "attn_logit_softcapping": ("attn_logits_soft_cap", None),
        "final_logit_softcapping": ("final_logits_soft_cap", None),
    }
)
"""Field -> MaxText's key and its default; None: the field counts only where the model's own configuration sets the
key."""


def computed_fields(name: str, keys: Mapping[str, object]) -> dict[str, object]:
    """Return the fields as MaxText computes the model `name` with these keys of the workload, as far as they are
    known."""
    own = pins(name)
    wanted = {field: keys.get(key, own.get(key, default)) for field, (key, default) in FIELDS.items()}
    return {field: value for field, value in wanted.items() if value is not None}
