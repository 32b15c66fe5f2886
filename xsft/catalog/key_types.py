"""Types, allowed values and bounds of MaxText's keys, as its own parser has them. Pure."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from xsft.catalog.data import catalog_text

POLICIES = (
    *("none", "full", "minimal", "minimal_flash", "minimal_with_context", "minimal_with_quantization"),
    *("minimal_with_context_and_quantization", "save_dot_with_context_except_mlp", "save_dot_except_mlpwi"),
    *("save_dot_except_mlp", "save_qkv_proj", "qkv_proj_offloaded", "minimal_offloaded", "custom", "save_out_proj"),
)
"""source: maxtext@0.2.5 layers/nnx_decoders.py: "Remat policy needs to be on list of remat policies"."""
KERNELS = (
    *("autoselected", "dot_product", "flash", "paged"),
    *("cudnn_flash_te", "cudnn_flash_jax", "vllm_rpa", "vllm_batched_rpa"),
)
"""source: maxtext@0.2.5 layers/attention_op.py [apply_attention]."""
MOMENTS = ("", "float32", "bfloat16", "float16")
"""Floating-point types of Adam's first moment that NumPy knows by name and that hold it. source: maxtext@0.2.5
configs/pyconfig.py: `jnp.dtype(mu_dtype)`."""
RINGS = ("", "hybrid_ring_64x4", "hybrid_ring_32x8")
"""source: maxtext@0.2.5 utils/max_utils.py [is_valid_custom_mesh]."""
LATER = {"remat_policy": POLICIES, "attention": KERNELS, "mu_dtype": MOMENTS, "custom_mesh": RINGS}
"""Values of texts that MaxText's parser lets pass, and its model refuses."""


class KeyType(Struct, frozen=True, kw_only=True):
    kinds: tuple[str, ...]
    """int, float, bool, str, list, null; any one fits. Empty if only `values` do."""
    values: tuple[str, ...] | None
    """Allowed texts; None: any."""
    bounds: tuple[tuple[str, float], ...]
    """`gt`, `ge`, `lt` or `le`, and the number."""


@cache
def key_types() -> dict[str, KeyType]:
    """Return the types by key; keys of other types are left out."""
    rows = (line.split(" ") for line in catalog_text("key_types.txt").splitlines() if not line.startswith("#"))
    return {row[0]: _key_type(*row) for row in rows}


def _key_type(name: str, kinds: str, values: str, *bounds: str) -> KeyType:
    limits = (bound.partition("=") for bound in bounds)
    return KeyType(
        kinds=tuple(kinds.split(",")) if kinds != "-" else (),
        values=LATER.get(name) if values == "-" else tuple(values.split("|")),
        bounds=tuple((sort, float(limit)) for sort, _, limit in limits),
    )
