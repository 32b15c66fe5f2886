"""Runs in MaxText's environment: what TPU's attention kernel says of sequence lengths and blocks, traced without a TPU.

Reads `[[length, {sa_block_…: n}], …]`, prints for each what the kernel raises, or an empty text.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks


def refusal(length: int, blocks: dict[str, int]) -> str:
    """Return the error raised where MaxText's create_sa_config would have built the kernel, forward or backward."""
    sizes = {name.removeprefix("sa_"): min(block, length) for name, block in blocks.items()}
    try:
        mask = masks.MultiHeadMask([masks.CausalMask((length, length))])
        splash_mha = kernel.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=kernel.BlockSizes(**sizes))

        def loss(query: jax.Array, key: jax.Array, value: jax.Array, ids: jax.Array) -> jax.Array:
            return jnp.sum(splash_mha(query, key, value, segment_ids=kernel.SegmentIds(ids, ids)).astype(jnp.float32))

        shape_dtype_struct = jax.ShapeDtypeStruct((1, length, 128), jnp.bfloat16)
        jax.eval_shape(
            jax.grad(loss, argnums=(0, 1, 2)),
            shape_dtype_struct,
            shape_dtype_struct,
            shape_dtype_struct,
            jax.ShapeDtypeStruct((length,), jnp.int32),
        )
    except (ValueError, NotImplementedError) as refused:
        return str(refused)
    return ""


print(json.dumps([refusal(*one) for one in json.load(sys.stdin)]))
