"""Runs in MaxText's environment: writes checkpoints in the trees that `to_maxtext` and the SFT trainer save, of the
weights of a Hugging Face folder.

usage: write_trained.py MODEL FOLDER. FOLDER gets `base/0/items`, `tiny/checkpoints/2/model_params` (every weight
changed) and `tinylora/checkpoints/2/model_params` (adapters of attention and MLP, rank 4).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from safetensors.numpy import load_file

NAMES = {
    "mlp.gate_proj": "mlp/wi_0/kernel",
    "mlp.up_proj": "mlp/wi_1/kernel",
    "mlp.down_proj": "mlp/wo/kernel",
    "input_layernorm": "pre_self_attention_layer_norm/scale",
    "post_attention_layernorm": "post_self_attention_layer_norm/scale",
    "self_attn.q_proj": "self_attention/query/kernel",
    "self_attn.k_proj": "self_attention/key/kernel",
    "self_attn.v_proj": "self_attention/value/kernel",
    "self_attn.o_proj": "self_attention/out/kernel",
    "self_attn.q_norm": "self_attention/query_norm/scale",
    "self_attn.k_norm": "self_attention/key_norm/scale",
}
HEADS = {"query": (64, 4, 16), "key": (64, 2, 16), "value": (64, 2, 16), "out": (4, 16, 64)}
LAYERS, RANK = 28, 4


def weights(model: Path) -> dict[str, Any]:
    """MaxText's arrays by path, layers stacked along axis 1."""
    tensors = {name: np.asarray(tensor, np.float32) for name, tensor in load_file(model / "model.safetensors").items()}
    arrays_of_path = {
        "token_embedder/embedding": tensors["model.embed_tokens.weight"],
        "decoder/decoder_norm/scale": tensors["model.norm.weight"],
    }
    for name, path in NAMES.items():
        layers = [shaped(tensors[f"model.layers.{i}.{name}.weight"], path) for i in range(LAYERS)]
        arrays_of_path[f"decoder/layers/{path}"] = np.stack(layers, axis=1)
    return arrays_of_path


def shaped(array: Any, path: str) -> Any:
    shape = HEADS.get(path.split("/")[1])
    return array.T.reshape(shape) if shape else array.T


def adapters(arrays: dict[str, Any]) -> dict[str, Any]:
    arrays_of_path = {}
    random = np.random.default_rng(2)
    for path, array in arrays.items():
        if not path.endswith("kernel"):
            continue
        inner = 64 if "out" in path else array.shape[0]
        outer = array.size // LAYERS // inner
        arrays_of_path[f"{path}_lora_a"] = random.normal(0, 0.1, (inner, LAYERS, RANK))
        arrays_of_path[f"{path}_lora_b"] = random.normal(0, 0.1, (RANK, LAYERS, outer))
    return arrays_of_path


def tree(arrays: dict[str, Any], *, end: tuple[str, ...] = ()) -> dict[str, Any]:
    top: dict[str, Any] = {}
    for path, array in arrays.items():
        names = (*path.split("/"), *end)
        node, leaf = top, names[-1]
        for name in names[:-1]:
            node = node.setdefault(name, {})
        node[leaf] = jnp.asarray(array, jnp.bfloat16)
    return top


def save(folder: Path, content: dict[str, Any]) -> None:
    ocp.PyTreeCheckpointer().save(folder.absolute(), content)
    (folder.parent / "_CHECKPOINT_METADATA").write_text('{"custom_metadata": {}}')


def main() -> None:
    model, folder = map(Path, sys.argv[1:])
    arrays = weights(model)
    random = np.random.default_rng(1)
    tuned = {path: array + random.normal(0, 0.02, array.shape) for path, array in arrays.items()}
    save(folder / "base" / "0" / "items", {"params": {"params": tree(arrays)}})
    save(folder / "tiny" / "checkpoints" / "2" / "model_params", tree(tuned, end=("value",)))
    save(folder / "tinylora" / "checkpoints" / "2" / "model_params", tree(adapters(arrays), end=("value",)))


if __name__ == "__main__":
    main()
