"""The arrays of one decoder layer, per kind of decoder. Pure.

Names are dotted and relative to the layer; sizes have MaxText's key names. source: maxtext@0.2.5 models/*.py,
layers/attentions.py, attention_mla.py, linears.py, moe.py.
"""

from __future__ import annotations

from collections.abc import Mapping

ArrayShape = tuple[int, ...]
Arrays = dict[str, ArrayShape]
"""Name within the layer, e.g. `mlp.wo.kernel` -> shape without the layer axis."""
Sizes = Mapping[str, int]
"""MaxText's key -> size; a switch is 0 or 1."""


def with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}.{name}": shape for name, shape in arrays.items()}


def norms(size: int, *names: str) -> Arrays:
    return {f"{name}.scale": (size,) for name in names}


def attention(s: Sizes, *, kv_heads: int | None = None, head_dim: int | None = None) -> Arrays:
    """Return the arrays of grouped-query attention."""
    emb, q, head = s["base_emb_dim"], s["base_num_query_heads"], head_dim or s["head_dim"]
    kv = kv_heads or s["base_num_kv_heads"]
    return {
        "query.kernel": (emb, q, head),
        "key.kernel": (emb, kv, head),
        "value.kernel": (emb, kv, head),
        "out.kernel": (q, head, emb),
    }


def biases(s: Sizes) -> Arrays:
    q, kv, head = s["base_num_query_heads"], s["base_num_kv_heads"], s["head_dim"]
    return {"query.bias": (q, head), "key.bias": (kv, head), "value.bias": (kv, head)}


def mlp(emb: int, width: int) -> Arrays:
    """Return the arrays of a gated feed-forward block."""
    return {"wi_0.kernel": (emb, width), "wi_1.kernel": (emb, width), "wo.kernel": (width, emb)}


def experts(s: Sizes) -> Arrays:
    """Return the arrays of routed experts and their gate."""
    emb, count, width = s["base_emb_dim"], s["num_experts"], s["base_moe_mlp_dim"]
    return {
        "gate.kernel": (emb, count),
        "wi_0": (count, emb, width),
        "wi_1": (count, emb, width),
        "wo": (count, width, emb),
    }


def llama(s: Sizes) -> Arrays:
    return {**_pre_post(s), **with_prefix("self_attention", attention(s)), **_mlp(s)}


def qwen2(s: Sizes) -> Arrays:
    return {**llama(s), **with_prefix("self_attention", biases(s))}


def qwen3(s: Sizes) -> Arrays:
    return {**llama(s), **_head_norms(s["head_dim"])}


def qwen3_moe(s: Sizes) -> Arrays:
    layer = {**_pre_post(s), **with_prefix("self_attention", attention(s)), **_head_norms(s["head_dim"])}
    return {**layer, **with_prefix("moe_block", experts(s))}


def mixtral(s: Sizes) -> Arrays:
    return {**_pre_post(s), **with_prefix("self_attention", attention(s)), **with_prefix("MoeBlock_0", experts(s))}


def gemma(s: Sizes) -> Arrays:
    layer = norms(s["base_emb_dim"], "pre_self_attention_norm", "pre_ffw_norm")
    return {**layer, **with_prefix("self_attention", attention(s)), **_mlp(s)}


def gemma2(s: Sizes) -> Arrays:
    """Return the arrays of a local and a global layer, which MaxText counts as one layer."""
    pair: Arrays = {}
    for kind in ("local", "global"):
        pair |= norms(s["base_emb_dim"], *(f"{name}_{kind}" for name in _gemma_norms(s)))
        pair |= with_prefix(f"self_attention_{kind}", attention(s))
        pair |= with_prefix(f"mlp_{kind}", mlp(s["base_emb_dim"], s["base_mlp_dim"]))
    return pair


def gemma3(s: Sizes) -> Arrays:
    layer = {**norms(s["base_emb_dim"], *_gemma_norms(s)), **_head_norms(s["head_dim"])}
    return {**layer, **with_prefix("self_attention", attention(s)), **_mlp(s)}


def gemma4_local(s: Sizes) -> Arrays:
    layer = {"layer_scalar": (1,), **norms(s["base_emb_dim"], *_gemma_norms(s))}
    feed_forward = _gemma4_experts(s) if s["num_experts"] > 1 else _mlp(s)
    return {**layer, **with_prefix("self_attention", attention(s)), **_head_norms(s["head_dim"]), **feed_forward}


def gemma4_global(s: Sizes) -> Arrays:
    """Return the arrays of a global layer: fewer and wider heads than a local one; keys may serve as values."""
    head = s["global_head_dim"] or s["head_dim"]
    attention_arrays = attention(s, kv_heads=s["global_num_kv_heads"], head_dim=head)
    if s["share_kv_projections"]:
        del attention_arrays["value.kernel"]
    other_arrays = {name: shape for name, shape in gemma4_local(s).items() if not name.startswith("self_attention.")}
    return {**other_arrays, **with_prefix("self_attention", attention_arrays), **_head_norms(head)}


def _gemma4_experts(s: Sizes) -> Arrays:
    emb, count = s["base_emb_dim"], s["num_experts"]
    after = ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2")
    return {
        **with_prefix("mlp", norms(emb, *after)),
        "mlp.pre_forward_scale_2": (emb,),
        **with_prefix("mlp.moe_block.MoeBlock_0", {**experts(s), "per_expert_scale": (count,)}),
        **with_prefix("mlp.moe_block.shared_experts", mlp(emb, s["shared_experts"] * s["base_mlp_dim"])),
    }


def gpt_oss(s: Sizes) -> Arrays:
    emb, count, width = s["base_emb_dim"], s["num_experts"], s["base_moe_mlp_dim"]
    inner = {**attention(s), **biases(s), "out.bias": (emb,), "sinks": (s["base_num_query_heads"],)}
    wide = {"wi_0_bias": (count, width), "wi_1_bias": (count, width), "wo_bias": (count, emb), "gate.bias": (count,)}
    return {**_pre_post(s), **with_prefix("GptOssAttention", inner), **with_prefix("GptOssMlp", {**experts(s), **wide})}


def olmo3(s: Sizes) -> Arrays:
    """Return the arrays of a layer with norms after attention and feed-forward, over all heads at once."""
    head = s["head_dim"]
    inner = {
        **attention(s),
        **norms(s["base_num_query_heads"] * head, "query_norm"),
        **norms(s["base_num_kv_heads"] * head, "key_norm"),
    }
    layer = norms(s["base_emb_dim"], "post_self_attention_layer_norm", "post_mlp_layer_norm")
    return {**layer, **with_prefix("attention", inner), **_mlp(s)}


def llama4_experts(s: Sizes) -> Arrays:
    block = {
        **with_prefix("MoeBlock_0", experts(s)),
        **with_prefix("shared_experts", mlp(s["base_emb_dim"], s["shared_experts"] * s["base_moe_mlp_dim"])),
    }
    return {**_pre_post(s), **with_prefix("self_attention", attention(s)), **with_prefix("Llama4MoEBlock_0", block)}


def deepseek_dense(s: Sizes) -> Arrays:
    return {**_pre_post(s), **with_prefix("self_attention", _latent_attention(s)), **_mlp(s)}


def deepseek_experts(s: Sizes) -> Arrays:
    emb, width = s["base_emb_dim"], s["base_moe_mlp_dim"]
    routed = {**experts(s), **({"gate.bias": (s["num_experts"],)} if s["routed_bias"] else {})}
    block = {
        **with_prefix("MoeBlock_0", routed),
        **with_prefix("shared_experts", mlp(emb, s["shared_experts"] * width)),
    }
    return {
        **_pre_post(s),
        **with_prefix("self_attention", _latent_attention(s)),
        **with_prefix("DeepSeekMoeBlock_0", block),
    }


def _latent_attention(s: Sizes) -> Arrays:
    """Return the arrays of multi-head latent attention: queries, keys and values through low ranks."""
    emb, heads, low = s["base_emb_dim"], s["base_num_query_heads"], s["q_lora_rank"]
    rank, rope, head = s["kv_lora_rank"], s["qk_rope_head_dim"], s["qk_nope_head_dim"] + s["qk_rope_head_dim"]
    query = {"wq_a.kernel": (emb, low), "wq_b.kernel": (low, heads, head), "q_norm.scale": (low,)}
    return {
        **(query if low else {"query.kernel": (emb, heads, head)}),
        "wkv_a.kernel": (emb, rank + rope),
        "wkv_b.kernel": (rank, heads, s["qk_nope_head_dim"] + s["v_head_dim"]),
        "kv_norm.scale": (rank,),
        "out.kernel": (heads, s["v_head_dim"], emb),
        **(with_prefix("indexer", _indexer(s)) if s["use_indexer"] else {}),
    }


def _indexer(s: Sizes) -> Arrays:
    emb, heads, head = s["base_emb_dim"], s["indexer_n_heads"], s["indexer_head_dim"]
    return {
        "wq_b.kernel": (s["q_lora_rank"], heads, head),
        "wk.kernel": (emb, head),
        "k_norm.scale": (head,),
        "k_norm.bias": (head,),
        "weights_proj.kernel": (emb, heads),
    }


def qwen_next_full(s: Sizes) -> Arrays:
    """Return the arrays of full attention with a gate on the query."""
    emb, q, head = s["base_emb_dim"], s["base_num_query_heads"], s["head_dim"]
    inner = {**attention(s), "query.kernel": (emb, q, 2 * head), "out.kernel": (q * head, emb)}
    layer = {**inner, **norms(head, "query_norm", "key_norm")}
    return {**_qwen_next(s), **with_prefix("attention.attention", layer)}


def qwen_next_linear(s: Sizes) -> Arrays:
    """Return the arrays of gated delta-net attention."""
    emb, value_heads = s["base_emb_dim"], s["gdn_num_value_heads"]
    keys, values = s["gdn_num_key_heads"] * s["gdn_key_head_dim"], value_heads * s["gdn_value_head_dim"]
    inner = {
        "A_log": (value_heads,),
        "dt_bias": (value_heads,),
        "conv1d.kernel": (s["gdn_conv_kernel_dim"], 1, 2 * keys + values),
        "in_proj_ba.kernel": (emb, 2 * value_heads),
        "in_proj_qkvz.kernel": (emb, 2 * keys + 2 * values),
        "norm.rms_norm.scale": (s["gdn_value_head_dim"],),
        "out_proj.kernel": (values, emb),
    }
    return {**_qwen_next(s), **with_prefix("attention", inner)}


def _qwen_next(s: Sizes) -> Arrays:
    emb = s["base_emb_dim"]
    return {
        **norms(emb, "input_layernorm", "post_attention_layernorm"),
        **with_prefix("mlp.routed_experts", experts(s)),
        **with_prefix("mlp.shared_expert", mlp(emb, s["base_moe_mlp_dim"])),
        "mlp.shared_expert_gate.kernel": (emb, 1),
    }


def _pre_post(s: Sizes) -> Arrays:
    return norms(s["base_emb_dim"], "pre_self_attention_layer_norm", "post_self_attention_layer_norm")


def _mlp(s: Sizes) -> Arrays:
    return with_prefix("mlp", mlp(s["base_emb_dim"], s["base_mlp_dim"]))


def _head_norms(head_dim: int) -> Arrays:
    return with_prefix("self_attention", norms(head_dim, "query_norm", "key_norm"))


def _gemma_norms(s: Sizes) -> tuple[str, ...]:
    after_attention = ("post_self_attention_norm",) if s["use_post_attn_norm"] else ()
    after_ffw = ("post_ffw_norm",) if s["use_post_ffw_norm"] else ()
    return ("pre_self_attention_norm", "pre_ffw_norm", *after_attention, *after_ffw)
