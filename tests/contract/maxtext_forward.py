"""A Llama of MaxText's checkpoint, computed by numpy alone. Run by MaxText's interpreter, for orbax and tokenizers.

usage: maxtext_forward.py WEIGHTS TOKENIZER < JOB. JOB is `{"prompts": [text, …], "answers": [text, …], "most": n,
"stop": text}`; prints `{"tokens": [[…], …], "loss": x}`: the greedy answer to each prompt, and the mean cross-entropy
of the answers' tokens.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

EPSILON, TIMESCALE = 1e-5, 10_000.0
"""source: maxtext@0.2.5 configs/base.yml normalization_layer_epsilon, rope_max_timescale."""


def arrays(weights: str) -> dict[str, Any]:
    import orbax.checkpoint as ocp

    tree = ocp.PyTreeCheckpointer().restore(weights)
    decoder, layers = tree["decoder"], tree["decoder"]["layers"]
    named = {
        "embedding": tree["token_embedder"]["embedding"],
        "norm": decoder["decoder_norm"]["scale"],
        "head": decoder["logits_dense"]["kernel"],
        "before": layers["pre_self_attention_layer_norm"]["scale"],
        "after": layers["post_self_attention_layer_norm"]["scale"],
        **{name: layers["self_attention"][name]["kernel"] for name in ("query", "key", "value", "out")},
        **{name: layers["mlp"][name]["kernel"] for name in ("wi_0", "wi_1", "wo")},
    }
    return {name: np.asarray(held["value"], np.float64) for name, held in named.items()}


def logits(weights_of_model: dict[str, Any], tokens: list[int]) -> Any:
    """The layers are stacked along axis 1 (param_scan_axis)."""
    x = weights_of_model["embedding"][tokens]
    for layer in range(weights_of_model["before"].shape[1]):
        of = {
            name: np.take(array, layer, axis=1)
            for name, array in weights_of_model.items()
            if array.ndim > 1 and name != "head"
        }
        y = normed(x, of["before"])
        query, key = (turned(np.einsum("te,ehd->thd", y, of[name])) for name in ("query", "key"))
        value = np.einsum("te,ehd->thd", y, of["value"])
        x = x + np.einsum("thd,hde->te", attended(query, key, value), of["out"])
        y = normed(x, of["after"])
        gate = y @ of["wi_0"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ of["wi_1"])) @ of["wo"]
    return normed(x, weights_of_model["norm"]) @ weights_of_model["head"]


def normed(x: Any, scale: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * scale


def turned(x: Any) -> Any:
    """Rotary positions of half and half."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[0])[:, None] / TIMESCALE ** (np.arange(half) / half)
    sin, cos = np.sin(angle)[:, None], np.cos(angle)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attended(query: Any, key: Any, value: Any) -> Any:
    """MaxText scales the query's kernel instead of the scores."""
    group = query.shape[1] // key.shape[1]
    key, value = (np.repeat(tensor, group, axis=1) for tensor in (key, value))
    scores = np.einsum("thd,shd->hts", query, key)
    scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hts,shd->thd", weights / weights.sum(axis=-1, keepdims=True), value)


def greedy(weights_of_model: dict[str, Any], prompt: list[int], *, most: int, stop: int) -> list[int]:
    said: list[int] = []
    while len(said) < most and stop not in said:
        said.append(int(np.argmax(logits(weights_of_model, [*prompt, *said])[-1])))
    return said


def losses(weights_of_model: dict[str, Any], prompt: list[int], answer: list[int]) -> list[float]:
    found = logits(weights_of_model, [*prompt, *answer[:-1]])[len(prompt) - 1 :]
    found = found - found.max(axis=-1, keepdims=True)
    logs = found - np.log(np.exp(found).sum(axis=-1, keepdims=True))
    return [-float(row[token]) for row, token in zip(logs, answer, strict=True)]


def main(weights: str, tokenizer: str) -> None:
    from tokenizers import Tokenizer

    job, weights_of_model = json.load(sys.stdin), arrays(weights)
    spoken = Tokenizer.from_file(str(Path(tokenizer) / "tokenizer.json"))
    prompts, answers = ([spoken.encode(text).ids for text in job[name]] for name in ("prompts", "answers"))
    stop = spoken.token_to_id(job["stop"])
    token_lists = [greedy(weights_of_model, prompt, most=job["most"], stop=stop) for prompt in prompts]
    loss_list = [
        x for prompt, answer in zip(prompts, answers, strict=True) for x in losses(weights_of_model, prompt, answer)
    ]
    json.dump({"tokens": token_lists, "loss": sum(loss_list) / len(loss_list)}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
