"""The size of the model that an adapter was saved for. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from xsft.spec.base import Value


def default_parameters(keys: Mapping[str, Value]) -> int | None:
    """Return the parameters of `model_name=default` with a Llama decoder, untied; None for any other model.

    source: maxtext@0.2.5 models/llama2.py; equals the 545.4 KiB (float32) that Orbax says it writes for the tiny model.
    """
    names = (
        "base_emb_dim", "base_num_query_heads", "base_num_kv_heads", "head_dim", "base_mlp_dim",
        "base_num_decoder_layers", "vocab_size",
    )  # fmt: skip
    sizes = [value for name in names if isinstance(value := keys.get(name), int)]
    if keys.get("model_name") != "default" or keys.get("decoder_block") != "llama2" or len(sizes) != len(names):
        return None
    emb, query, kv, head, mlp, layers, vocab = sizes
    attention = emb * head * (2 * query + 2 * kv)
    layer = attention + 3 * emb * mlp + 2 * emb
    return 2 * vocab * emb + layers * layer + emb
