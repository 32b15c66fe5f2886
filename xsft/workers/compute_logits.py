"""Computes MaxText's logits of a trained checkpoint. Runs as a program in MaxText's environment (`workers.answering`).

`{"argv", "tokenizer", "prompts", "length", "file", "merged"}` becomes `{"positions": n}`. `argv` is the trainer's
command with the checkpoint in place of its initial one; `merged`: the data type to which an export rounded the sum of
base and adapters, or null. Writes `tokens_<n>` and `logits_<n>` of each prompt to `file`.

As maxtext@0.2.5 trainers/post_train/sft/train_sft.py builds the model, LoRA included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xsft.workers.answering import answer_question, configured
from xsft.workers.stored_weights import LORA


def answer(job: dict[str, Any]) -> dict[str, Any]:
    prompts = [one[: job["length"]] for one in prompt_tokens(job["tokenizer"], job["prompts"])]
    logits = logits_of(configured(job["argv"]), prompts, length=job["length"], merged=job["merged"])
    arrays: dict[str, Any] = {f"tokens_{n}": np.asarray(one, np.int32) for n, one in enumerate(prompts)}
    np.savez(job["file"], **arrays, **{f"logits_{n}": one for n, one in enumerate(logits)})
    return {"positions": sum(map(len, prompts))}


def prompt_tokens(folder: str, prompts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each prompt, in the chat template if there is one."""
    import transformers  # type: ignore[import-not-found]

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if not tokenizer.chat_template:
        return [list(tokenizer(one)["input_ids"]) for one in prompts]
    turns = [[{"role": "user", "content": one}] for one in prompts]
    texts = [tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True) for one in turns]
    return [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]


def logits_of(config: Any, prompts: Sequence[Sequence[int]], *, length: int, merged: str | None) -> list[Any]:
    """Return the logits of each prompt in float32. All are padded to one length, so that MaxText compiles once."""
    import jax  # type: ignore[import-not-found]
    from flax import linen as nn  # type: ignore[import-not-found]
    from maxtext.utils import lora_utils, model_creation_utils  # type: ignore[import-not-found]

    model, mesh = model_creation_utils.from_pretrained(config)
    with jax.set_mesh(mesh), nn.logical_axis_rules(config.logical_axis_rules):
        if config.lora.enable_lora:
            model = lora_utils.apply_lora_to_model(model, mesh, config)
            lora_utils.restore_lora_from_path(model, config)
        if merged:
            merge(model, config, dtype=merged)
        found = []
        for prompt in prompts:
            row = np.zeros((1, length), np.int32)
            row[0, : len(prompt)] = prompt
            places = np.arange(length, dtype=np.int32)[None]
            logits = model(
                decoder_input_tokens=row,
                decoder_positions=places,
                decoder_segment_ids=np.ones_like(row),
                enable_dropout=False,
            )
            found.append(np.asarray(logits, np.float32)[0, : len(prompt)])
    return found


def merge(model: Any, config: Any, *, dtype: str) -> None:
    """Add the adapters to the weights, rounded as a merged export rounds: what is read, and each sum. All stay float32.

    source: maxtext@0.2.5 checkpoint_conversion/utils/utils.py load_orbax_checkpoint, to_huggingface.py
    _get_lora_delta, _transform_weights_to_full_model
    """
    import jax
    from flax import nnx

    def rounded(values: Any) -> Any:
        return values.astype(dtype).astype("float32")

    nnx.update(model, jax.tree.map(rounded, nnx.state(model, nnx.Param)))
    (first, second), scale = LORA, config.lora.lora_alpha / config.lora.lora_rank
    for _, part in nnx.iter_graph(model):
        adapted = [name for name in vars(part) if name.endswith(first)] if isinstance(part, nnx.Module) else []
        for left in adapted:
            kernel, right = (getattr(part, left.removesuffix(first) + end) for end in ("", second))
            pair = getattr(part, left).get_value(), right.get_value()
            change = scale * update(*pair, shape=kernel.shape, axis=config.param_scan_axis)
            kernel.set_value(rounded(kernel.get_value() + change))
            right.set_value(right.get_value() * 0)


def update(left: Any, right: Any, *, shape: tuple[int, ...], axis: int) -> Any:
    """Return the product of the two matrices of an adapter in the kernel's shape. `axis`: of the layers, if the arrays
    are those of stacked layers."""
    import jax.numpy as jnp  # type: ignore[import-not-found]

    if left.ndim == 2:
        return (left @ right).reshape(shape)
    layers = [jnp.take(left, i, axis) @ jnp.take(right, i, axis) for i in range(shape[axis])]
    own = (*shape[:axis], *shape[axis + 1 :])
    return jnp.stack([one.reshape(own) for one in layers], axis=axis)


if __name__ == "__main__":
    answer_question(answer)
