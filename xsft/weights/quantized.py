"""Read config.json of Hugging Face weights: whether they are quantised. Pure.

MaxText's `to_maxtext` casts such weights to the saved type and leaves their scales out: the numbers are wrong, without
an error. source: maxtext@0.2.5 checkpoint_conversion/to_maxtext.py `LazyHFLoader.get_tensor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SCALES = ("_scale_inv", ".weight_scale", "_scales", ".scales", ".qweight", ".qzeros", ".absmax")
"""Ends of the names of arrays beside quantised weights.

source: transformers@4.57 integrations/finegrained_fp8.py (weight_scale_inv), mxfp4.py (_scales), awq.py (qweight,
qzeros, scales), bitsandbytes (absmax); compressed-tensors (weight_scale).
"""
NARROW = ("F8_", "F4", "F6_", "U8", "I8")
"""Types of safetensors in which only quantised weights are kept. source: safetensors@0.6 tensor.rs Dtype."""


def quantisation_evidence(config: Mapping[str, Any], *, arrays: Iterable[str], dtypes: Iterable[str] = ()) -> str:
    """Return the evidence of quantisation, for a message; empty if there is none. `arrays`: names in the index or in
    the files' headers."""
    for section in sections(config):
        if method := section.get("quantization_config"):
            name = method.get("quant_method") if isinstance(method, Mapping) else None
            return f"config.json has quantization_config{f' ({name})' if isinstance(name, str) else ''}"
    if scale := next((name for name in arrays if name.endswith(SCALES)), None):
        return f"the array {scale} contains scales"
    if narrow := next((name for name in dtypes if name.startswith(NARROW)), None):
        return f"weights are stored as {narrow}"
    return ""


def sections(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the config and each `…_config` below it, at any depth: models of text and images keep the language model's
    in one (text_config, llm_config, language_config, thinker_config.text_config)."""
    waiting = [config]
    while waiting:
        section = waiting.pop(0)
        yield section
        below = (value for name, value in section.items() if name.endswith("_config"))
        waiting += [one for one in below if isinstance(one, Mapping)]
