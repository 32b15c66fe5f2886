"""A program that runs MaxText's exporter on LoRA checkpoints, with corrections. Pure data."""

from __future__ import annotations

PROGRAM = """\
import sys
import jax
import numpy
from absl import app
from maxtext.checkpoint_conversion import to_huggingface as exporter
from maxtext.checkpoint_conversion.utils import utils

save, product = utils.numpy_save_file, exporter._get_lora_delta
extract = exporter.detect_and_extract_checkpoint


def save_arrays(tensors, *rest, **named):
    return save({name: numpy.ascontiguousarray(one) for name, one in tensors.items()}, *rest, **named)


def update(key, state, scaling):
    found, weight = product(key, state, scaling), state.get(key)
    if found is None or weight is None or found.ndim != 3 or weight.ndim < 4:
        return found
    layers = jax.numpy.moveaxis(found, 1, 0)
    return jax.numpy.moveaxis(layers.reshape(weight.shape[1], weight.shape[0], *weight.shape[2:]), 0, 1)


def both(checkpoint):
    adapters = {name: tree for name, tree in checkpoint.items() if name != "params"}
    found = extract(checkpoint)
    return {**found, **utils.extract_nnx_weights(adapters)} if "params" in checkpoint and adapters else found


utils.numpy_save_file, exporter._get_lora_delta = save_arrays, update
exporter.detect_and_extract_checkpoint = both
jax.config.update("jax_default_prng_impl", "unsafe_rbg")
jax.config.update("jax_platforms", "cpu")
sys.argv[0] = exporter.__file__
app.run(exporter.main)
"""
"""Runs `to_huggingface` with three corrections for LoRA; verification compares what it writes with the checkpoint.

1. It passes JAX arrays to safetensors, which takes NumPy's only (0.8: no attribute 'ctypes').
2. Of a converted base (`params`) and the adapters beside it, it reads the base alone: the merged model is the base.
3. It reshapes the update of a stacked attention output from [heads * head_dim, layers, emb] to [heads, layers,
   head_dim, emb] without moving the layers, which mixes them.

source, all run: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py _transform_weights_to_adapter,
_transform_weights_to_full_model; utils/utils.py detect_and_extract_checkpoint.
"""
