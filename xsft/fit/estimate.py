"""An estimate of a step's memory, which orders a search and decides nothing. Pure.

source: aot_fit.md §5: against the compiler's peak of dense models it errs by -6 to +48 %. Against the figures of the
catalogue's models with experts it errs by -12 to +41 % (tests/fit/test_estimate.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from xsft.catalog.fit import minimum_gib_per_chip
from xsft.catalog.mesh import mesh_axes
from xsft.catalog.models import CatalogModel
from xsft.catalog.tpu import Slice

GIB = 2**30

ROUTED_BYTES = 8
"""Bytes for each routed token and embedding dimension: four buffers in bfloat16. source: deepseek3-671b compiled with a
ragged_buffer_factor of 1.25 and of -1, aot_fit.md §0.1: 6.8 GiB apart.
"""


def estimated_gib(
    *, model: CatalogModel, tpu: Slice, num_slices: int, keys: Mapping[str, object], batch: float, tokens: int
) -> float:
    """Return GiB per chip: state, saved layer inputs, logits and head in float32, one gathered layer in bfloat16 with
    its gradient, and one layer's routed tokens. `batch`: sequences per device."""
    if model.params_b is None:
        return 0.0
    state = minimum_gib_per_chip(params_b=model.params_b, run=tpu, num_slices=num_slices, keys=keys)
    sequences = batch * tpu.devices / tpu.chips
    offloaded = keys.get("decoder_layer_input") == "offload"
    inputs = 0 if offloaded else 2 * model.layers * sequences * tokens * model.emb
    logits = 4 * sequences * tokens * model.vocab + 4 * model.vocab * model.emb
    tensor, expert = _tensor_and_expert_axes(tpu, keys)
    gathered = 4 * _gathered_layer(model, tensor=tensor, expert=expert)
    routed = ROUTED_BYTES * model.emb * sequences * tokens * _routed_share(model, keys, expert=expert)
    return state + (inputs + logits + gathered + routed) / GIB


def _tensor_and_expert_axes(tpu: Slice, keys: Mapping[str, object]) -> tuple[int, int]:
    """Return the tensor and the expert axis of a slice."""
    axes = mesh_axes(keys, "ici", total=tpu.devices)
    return max(1, axes.get("tensor", 1)), max(1, axes.get("expert", 1))


def _gathered_layer(model: CatalogModel, *, tensor: int, expert: int) -> float:
    """Return the parameters of one layer that a chip gathers: fsdp is gathered, expert and tensor axes are not."""
    experts = 3.0 * model.experts * model.emb * model.moe_dim
    whole = (model.params_b or 0.0) * 1e9 / max(1, model.layers)
    return (min(experts, whole) / expert + max(0.0, whole - experts)) / tensor


def _routed_share(model: CatalogModel, keys: Mapping[str, object], *, expert: int) -> float:
    """Return for how many copies of each of its tokens a chip has room; 0 for a dense model. With an expert axis there
    is room for the worst case, unless ragged_buffer_factor limits it.

    source: maxtext@0.2.5 layers/moe.py, get_ragged_buffer_size
    """
    if not model.moe:
        return 0.0
    factor, chosen = float(str(keys.get("ragged_buffer_factor", -1))), model.experts_per_token
    return chosen * (factor if factor > 0 and expert > 1 else min(expert, model.experts / chosen))
