"""Compute the arrays of a model: name and shape of every weight, as MaxText builds and saves them. Pure.

source: maxtext@0.2.5 layers/nnx_decoders.py (how layers are stacked); tests/catalog/test_arrays.py compares every model
with what the installed MaxText builds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from xsft.catalog import layers, releases
from xsft.catalog.layers import Arrays, ArrayShape, Sizes, with_prefix
from xsft.catalog.models import names
from xsft.catalog.releases import at_least
from xsft.catalog.sizes import decoder_block, is_rebuilt, sizes

EMBEDDING = "token_embedder.embedding"

NAMED_SINCE: Mapping[str, str] = MappingProxyType(
    {"gpt_oss": "0.2.4", "qwen2": "0.2.4", "gemma4": "0.2.4", "qwen3_next": "0.2.5", "qwen3_5": "0.2.5"}
)
"""Decoder -> first release known to use these names; the other decoders have used them since 0.2.0.

source: one or more models of each other decoder as maxtext@0.2.0 builds them, most of them also as 0.2.4 does.
"""

MAX_LAYERS = 1000
"""Upper limit on layers, above any real model, to bound memory use here."""


class ArrayLayout(Struct, frozen=True, kw_only=True):
    """The layout in which MaxText stores layers of equal shape."""

    scan: bool = True
    """scan_layers. True: stacked into one array; False: one array per layer."""
    axis: int = 1
    """param_scan_axis: position of the layer axis in a stacked array."""


class RequiredArrays(Struct, frozen=True, kw_only=True):
    """The arrays that a model reads from a checkpoint."""

    arrays: Mapping[str, ArrayShape]
    """Dotted name, e.g. `decoder.layers.mlp.wo.kernel` -> shape."""
    complete: bool
    """False: the model has more arrays, and only these are certain."""


def required(
    name: str, keys: Mapping[str, object], *, layout: ArrayLayout, release: str = releases.DEFAULT
) -> RequiredArrays | None:
    """Return the arrays of the model `name` with these MaxText `keys`; None if no array is certain."""
    size = sizes(name, keys, release=release)
    if size is None:
        return None
    block = decoder_block(name, keys)
    arrays: Arrays = {EMBEDDING: (size["vocab_size"], size["base_emb_dim"])}
    decoder = None if is_rebuilt(name, keys, release=release) else _decoder(block, size, layout)
    if decoder is None or not at_least(release, NAMED_SINCE.get(block, "0.2.0")):
        return RequiredArrays(arrays=arrays, complete=False)
    arrays["decoder.decoder_norm.scale"] = (size["base_emb_dim"],)
    if not size["logits_via_embedding"]:
        arrays["decoder.logits_dense.kernel"] = (size["base_emb_dim"], size["vocab_size"])
    return RequiredArrays(arrays={**arrays, **with_prefix("decoder", decoder)}, complete=True)


def exact_parameters(name: str, keys: Mapping[str, object], *, release: str = releases.DEFAULT) -> int | None:
    """Return the number of parameters in the model's arrays; None if not all are known."""
    is_known = name == "default" or name in names()
    arrays = required(name, keys, layout=ArrayLayout(), release=release) if is_known else None
    return sum(map(math.prod, arrays.arrays.values())) if arrays and arrays.complete else None


_ALIKE: Mapping[str, Callable[[Sizes], Arrays]] = MappingProxyType(
    {
        "llama2": layers.llama,
        "mistral": layers.llama,
        "mixtral": layers.mixtral,
        "qwen2": layers.qwen2,
        "qwen3": layers.qwen3,
        "qwen3_moe": layers.qwen3_moe,
        "gemma": layers.gemma,
        "gemma2": layers.gemma2,
    }
)
"""Decoders whose layers are all alike."""


def _decoder(block: str, s: Sizes, layout: ArrayLayout) -> Arrays | None:
    """Return the arrays of all layers; None for a decoder whose arrays are not computed here."""
    count = s["base_num_decoder_layers"]
    cycle = s["inhomogeneous_layer_cycle_interval"]
    if not 0 < count <= MAX_LAYERS or cycle < 1 or count % cycle:
        return None
    if block in _ALIKE:
        return _same_arrays_of_layers("layers", count, _ALIKE[block](s), layout)
    if block == "deepseek":
        dense = s["first_num_dense_layers"]
        return {
            **_same_arrays_of_layers("dense_layers", dense, layers.deepseek_dense(s), layout),
            **_same_arrays_of_layers("moe_layers", count - dense, layers.deepseek_experts(s), layout),
        }
    kinds = _kinds(block, s, cycle)
    return _blocks(block, kinds, count, layout) if kinds else None


def _kinds(block: str, s: Sizes, cycle: int) -> Sequence[Arrays]:
    """Return the layers of one block, for decoders with different layers or several layers per scan; empty for an
    unknown decoder.
    """
    kinds: Mapping[str, Callable[[], Sequence[Arrays]]] = {
        "gpt_oss": lambda: [layers.gpt_oss(s)] * cycle,
        "olmo3": lambda: [layers.olmo3(s)] * cycle,
        "llama4": lambda: [_llama4(s, i) for i in range(cycle)],
        "gemma3": lambda: [layers.gemma3(s)] * 6,
        "gemma4": lambda: [layers.gemma4_local(s)] * 5 + [layers.gemma4_global(s)],
        "qwen3_next": lambda: _qwen_next(s, cycle),
        "qwen3_5": lambda: _qwen_next(s, cycle),
    }
    return kinds[block]() if block in kinds else ()


def _llama4(s: Sizes, index: int) -> Arrays:
    has_experts = (index + 1) % max(1, s["interleave_moe_layer_step"]) == 0
    return layers.llama4_experts(s) if has_experts else layers.llama(s)


def _qwen_next(s: Sizes, cycle: int) -> Sequence[Arrays]:
    return [layers.qwen_next_linear(s)] * (cycle - 1) + [layers.qwen_next_full(s)]


def _blocks(block: str, kinds: Sequence[Arrays], count: int, layout: ArrayLayout) -> Arrays:
    if not layout.scan:
        numbered = (with_prefix(f"layers_{i}", kinds[i % len(kinds)]) for i in range(count))
        return {name: shape for layer in numbered for name, shape in layer.items()}
    if block in ("gemma4", "qwen3_next"):
        return _local_and_global("scanned_blocks" if block == "gemma4" else "layers", kinds, count, layout)
    return _cycle(kinds, count, layout, inside="layer" if block == "qwen3_5" else "layers")


def _same_arrays_of_layers(name: str, count: int, layer: Arrays, layout: ArrayLayout) -> Arrays:
    if layout.scan:
        return with_prefix(name, _stack_layers(layer, count, layout)) if count else {}
    return {key: shape for i in range(count) for key, shape in with_prefix(f"{name}_{i}", layer).items()}


def _cycle(kinds: Sequence[Arrays], count: int, layout: ArrayLayout, *, inside: str) -> Arrays:
    """Stack each layer of a block over all blocks; layers after the last whole block are not stacked."""
    blocks, layers_left = divmod(count, len(kinds))
    stacks = (with_prefix(f"layers.{inside}_{i}", _stack_layers(kind, blocks, layout)) for i, kind in enumerate(kinds))
    remainder = (with_prefix(f"layers_remainder.{inside}_{i}", kind) for i, kind in enumerate(kinds[:layers_left]))
    return {name: shape for arrays in (*stacks, *remainder) for name, shape in arrays.items()}


def _local_and_global(name: str, kinds: Sequence[Arrays], count: int, layout: ArrayLayout) -> Arrays:
    """Return blocks of equal layers, stacked, followed by one layer that differs."""
    blocks, layers_left = divmod(count, len(kinds))
    inner = _stack_layers(kinds[0], len(kinds) - 1, layout)
    arrays = with_prefix(f"{name}.local_layers", _stack_layers(inner, blocks, layout))
    arrays |= with_prefix(f"{name}.global_layer", _stack_layers(kinds[-1], blocks, layout))
    if layers_left:
        arrays |= with_prefix("layers_remainder.local_layers", _stack_layers(kinds[0], layers_left, layout))
    return arrays


def _stack_layers(layer: Arrays, count: int, layout: ArrayLayout) -> Arrays:
    stacked: Arrays = {}
    for name, shape in layer.items():
        # The bias of a router is no parameter in MaxText, and is always stacked on axis 0.
        axis = 0 if name.endswith("MoeBlock_0.gate.bias") else layout.axis
        stacked[name] = (*shape[:axis], count, *shape[axis:])
    return stacked
