"""An estimate of a step's memory, which orders a search and decides nothing. Pure.

source: aot_fit.md §5: against the compiler's peak of dense models it errs by -6 to +48 %; for experts it is untested.
"""

from __future__ import annotations

from collections.abc import Mapping

from xsft.catalog.fit import fill_axes, minimum_gib_per_chip
from xsft.catalog.models import CatalogModel
from xsft.catalog.tpu import Slice

GIB = 2**30


def estimated_gib(
    *, model: CatalogModel, tpu: Slice, num_slices: int, keys: Mapping[str, object], batch: float, tokens: int
) -> float:
    """Return GiB per chip: state, saved layer inputs, logits and head in float32, one gathered layer in bfloat16 with
    its gradient. `batch`: sequences per device."""
    if model.params_b is None:
        return 0.0
    state = minimum_gib_per_chip(params_b=model.params_b, run=tpu, num_slices=num_slices, keys=keys)
    sequences = batch * tpu.devices / tpu.chips
    offloaded = keys.get("decoder_layer_input") == "offload"
    inputs = 0 if offloaded else 2 * model.layers * sequences * tokens * model.emb
    logits = 4 * sequences * tokens * model.vocab + 4 * model.vocab * model.emb
    return state + (inputs + logits + 4 * _gathered_layer(model, tpu, keys)) / GIB


def _gathered_layer(model: CatalogModel, tpu: Slice, keys: Mapping[str, object]) -> float:
    """Return the parameters of one layer that a chip gathers: fsdp is gathered, expert and tensor axes are not."""
    sizes = {"ici_fsdp_parallelism": -1} | {k: int(str(v)) for k, v in keys.items() if k.startswith("ici_")}
    axes = fill_axes(sizes, total=tpu.devices)
    tensor, expert = (max(1, axes.get(f"ici_{name}_parallelism", 1)) for name in ("tensor", "expert"))
    experts = 3.0 * model.experts * model.emb * model.moe_dim
    whole = (model.params_b or 0.0) * 1e9 / max(1, model.layers)
    return (min(experts, whole) / expert + max(0.0, whole - experts)) / tensor
