"""Runs MaxText's `to_huggingface` with three corrections for LoRA; verification compares what it writes with the
checkpoint. Runs as a program in MaxText's environment; its arguments are the exporter's.

1. It passes JAX arrays to safetensors, which takes NumPy's only (0.8: no attribute 'ctypes').
2. Of a converted base (`params`) and the adapters beside it, it reads the base alone: the merged model is the base.
3. It reshapes the update of a stacked attention output from [heads * head_dim, layers, emb] to [heads, layers,
   head_dim, emb] without moving the layers, which mixes them.

source, all run: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py _transform_weights_to_adapter,
_transform_weights_to_full_model; utils/utils.py detect_and_extract_checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import jax  # type: ignore[import-not-found]
import numpy as np
from absl import app  # type: ignore[import-not-found]
from maxtext.checkpoint_conversion import to_huggingface as exporter  # type: ignore[import-not-found]
from maxtext.checkpoint_conversion.utils import utils  # type: ignore[import-not-found]

save, product = utils.numpy_save_file, exporter._get_lora_delta  # noqa: SLF001
extract = exporter.detect_and_extract_checkpoint


def save_arrays(tensors: Mapping[str, Any], *rest: Any, **named: Any) -> Any:
    return save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, *rest, **named)


def update(key: str, state: Mapping[str, Any], scaling: float) -> Any:
    change, weight = product(key, state, scaling), state.get(key)
    if change is None or weight is None or change.ndim != 3 or weight.ndim < 4:
        return change
    layers = jax.numpy.moveaxis(change, 1, 0)
    return jax.numpy.moveaxis(layers.reshape(weight.shape[1], weight.shape[0], *weight.shape[2:]), 0, 1)


def extract_both(checkpoint: Mapping[str, Any]) -> Any:
    adapters = {name: tree for name, tree in checkpoint.items() if name != "params"}
    arrays = extract(checkpoint)
    if "params" in checkpoint and adapters:
        return {**arrays, **utils.extract_nnx_weights(adapters)}
    return arrays


def main() -> None:
    utils.numpy_save_file, exporter._get_lora_delta = save_arrays, update  # noqa: SLF001
    exporter.detect_and_extract_checkpoint = extract_both
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")
    jax.config.update("jax_platforms", "cpu")
    sys.argv[0] = exporter.__file__
    app.run(exporter.main)


if __name__ == "__main__":
    main()
