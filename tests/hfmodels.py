"""Tiny Hugging Face models, written as safetensors files: qwen3-0.6b's arrays with small sizes and random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xsft.catalog.data import located

EMB, HEADS, KV, HEAD, MLP, VOCAB, LAYERS = 64, 4, 2, 16, 128, 512, 28
"""28 layers: MaxText's converter takes their number from the model's name."""

SIZES: Mapping[str, Any] = {
    "override_model_config": True,
    "base_emb_dim": EMB,
    "base_num_query_heads": HEADS,
    "base_num_kv_heads": KV,
    "head_dim": HEAD,
    "base_mlp_dim": MLP,
    "vocab_size": VOCAB,
}
"""What a workload needs under overrides.maxtext."""

CONFIG: Mapping[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": EMB,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "head_dim": HEAD,
    "intermediate_size": MLP,
    "vocab_size": VOCAB,
    "num_hidden_layers": LAYERS,
    "tie_word_embeddings": True,
}


def write_model(
    folder: Path, *, seed: int = 0, config: Mapping[str, Any] | None = None, dtype: str = "BF16", unused: int = 0
) -> Path:
    """config.json, model.safetensors and the tiny tokenizer; 2.1 MB. `unused`: numbers in an array that no model
    reads, for a larger file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    random = np.random.default_rng(seed)
    arrays = {name: random.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes().items()}
    more = {"unused.weight": np.zeros(unused, np.float32)} if unused else {}
    write_safetensors(folder / "model.safetensors", {**arrays, **more}, dtype=dtype)
    tokenizer = Path(located("xsft://tiny/tokenizer"))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)
    return folder


def shapes() -> dict[str, tuple[int, ...]]:
    layer = {
        "input_layernorm": (EMB,),
        "post_attention_layernorm": (EMB,),
        "self_attn.q_proj": (HEADS * HEAD, EMB),
        "self_attn.k_proj": (KV * HEAD, EMB),
        "self_attn.v_proj": (KV * HEAD, EMB),
        "self_attn.o_proj": (EMB, HEADS * HEAD),
        "self_attn.q_norm": (HEAD,),
        "self_attn.k_norm": (HEAD,),
        "mlp.gate_proj": (MLP, EMB),
        "mlp.up_proj": (MLP, EMB),
        "mlp.down_proj": (EMB, MLP),
    }
    layers = {f"model.layers.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in layer.items()}
    return {"model.embed_tokens.weight": (VOCAB, EMB), **layers, "model.norm.weight": (EMB,)}


def write_safetensors(file: Path, arrays: Mapping[str, np.ndarray[Any, Any]], *, dtype: str = "BF16") -> None:
    """source: the format in the README of github.com/huggingface/safetensors. `dtype`: BF16, F32, or a byte each."""
    header: dict[str, Any] = {}
    body = bytearray()
    for name, array in arrays.items():
        content = _content(array, dtype)
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(body))


def _content(array: np.ndarray[Any, Any], dtype: str) -> bytes:
    match dtype:
        case "F32":
            return array.astype("<f4").tobytes()
        case "BF16":  # the upper half of a float32
            return (array.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        case _:
            return np.zeros(array.size, np.uint8).tobytes()
