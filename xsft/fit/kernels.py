"""The FLOPs of kernels, which a compiled program shows as custom calls, from their shapes. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from xsft.fit.program import ArrayType

SPLASH = re.compile(r"splash_\w*?(?P<kind>fwd|dkv|dq)")
"""source: jax@0.11.0 experimental/pallas/ops/tpu/splash_attention/splash_attention_kernel.py; tokamax has a copy"""
GROUPED = re.compile(r"t?gmm")
"""source: jax@0.11.0 experimental/pallas/ops/tpu/megablox/gmm.py: gmm and tgmm"""
FLOATS = ("bf16", "f16", "f32", "f8e4m3fn", "f8e5m2")


def kernel_flops(name: str, *, operands: Sequence[ArrayType], text: str, routed_rows: int | None) -> float | None:
    """Return the kernel's FLOPs on one device, at least; None for an unknown kernel."""
    if splash := SPLASH.search(name):
        return _attention(splash["kind"], operands, text)
    if GROUPED.search(name):
        return _grouped_matmul_flops(operands, routed_rows)
    return None


def _attention(kind: str, operands: Sequence[ArrayType], text: str) -> float | None:
    """Return the FLOPs of splash attention: of causal pairs, half of all, and fewer if its mask covers fewer blocks.

    Its first three arrays with heads are queries, keys and values: [heads, length, width].
    """
    arrays = [one for one in operands if one.type in FLOATS and len(one.shape) >= 3]
    if len(arrays) < 3:
        return None
    queries, keys, values = (one.shape for one in arrays[:3])
    pairs = math.prod(queries[:-2]) * _attention_pairs(operands, queries=queries[-2], keys=keys[-2])
    fused = '\\"use_fused_bwd_kernel\\": true' in text
    of_keys, of_values = {"fwd": (1, 1), "dq": (2, 1), "dkv": (3 if fused else 2, 2)}[kind]
    return 2.0 * pairs * (of_keys * queries[-1] + of_values * values[-1])


def _attention_pairs(operands: Sequence[ArrayType], *, queries: int, keys: int) -> float:
    """Return the pairs of a query and a key. The mask's array is [heads, blocks of queries, blocks of keys]; a local
    mask has fewer of the latter, of which the first and the last are covered in part."""
    causal = queries * keys / 2 if queries == keys else queries * max(keys - queries / 2, 1)
    mask = next((one.shape for one in operands if one.type.startswith("s") and len(one.shape) == 3), None)
    if mask is None or not mask[-1] or mask[-1] == mask[-2]:
        return causal
    block = keys / mask[-2]
    return min(causal, queries * max(mask[-1] - 1, 0.5) * block)


def _grouped_matmul_flops(operands: Sequence[ArrayType], routed_rows: int | None) -> float | None:
    """Return the FLOPs of a grouped matrix multiplication: [rows, k] by [groups, k, n], or [rows, k] by [rows, n].

    The kernel computes as many rows as are routed to the device's experts: at balanced routing `routed_rows`.
    """
    floats = [one.shape for one in operands if one.type in FLOATS and len(one.shape) >= 2]
    flat = [shape for shape in floats if len(shape) == 2]
    stacked = [shape for shape in floats if len(shape) == 3]
    if not flat:
        return None
    rows, k = max(flat[0]), min(flat[0])
    if stacked:
        width = math.prod(stacked[0][1:])
        return 2.0 * min(rows, routed_rows or rows) * width
    return 2.0 * min(rows, routed_rows or rows) * k * min(flat[1]) if len(flat) > 1 else None
