"""Computes MaxText's logits of a trained checkpoint. Runs as a program in MaxText's environment (`pod.answering`).

`{"argv", "tokenizer", "prompts", "length", "file"}` becomes `{"positions": n}`. `argv` is the trainer's command with
the checkpoint in place of its initial one. Writes `tokens_<n>` and `logits_<n>` of each prompt to `file`.

As maxtext@0.2.5 trainers/post_train/sft/train_sft.py builds the model, LoRA included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xsft.export.name_tables import configured
from xsft.pod.answering import answer_notes


def answer(job: dict[str, Any]) -> dict[str, Any]:
    prompts = [one[: job["length"]] for one in tokens_of(job["tokenizer"], job["prompts"])]
    logits = logits_of(configured(job["argv"]), prompts, length=job["length"])
    arrays: dict[str, Any] = {f"tokens_{n}": np.asarray(one, np.int32) for n, one in enumerate(prompts)}
    np.savez(job["file"], **arrays, **{f"logits_{n}": one for n, one in enumerate(logits)})
    return {"positions": sum(map(len, prompts))}


def tokens_of(folder: str, prompts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each prompt, in the chat template if there is one."""
    import transformers  # type: ignore[import-not-found]

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if not tokenizer.chat_template:
        return [list(tokenizer(one)["input_ids"]) for one in prompts]
    turns = [[{"role": "user", "content": one}] for one in prompts]
    texts = [tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True) for one in turns]
    return [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]


def logits_of(config: Any, prompts: Sequence[Sequence[int]], *, length: int) -> list[Any]:
    """Return the logits of each prompt in float32. All are padded to one length, so that MaxText compiles once."""
    import jax  # type: ignore[import-not-found]
    from flax import linen as nn  # type: ignore[import-not-found]
    from maxtext.utils import lora_utils, model_creation_utils  # type: ignore[import-not-found]

    model, mesh = model_creation_utils.from_pretrained(config)
    with jax.set_mesh(mesh), nn.logical_axis_rules(config.logical_axis_rules):
        if config.lora.enable_lora:
            model = lora_utils.apply_lora_to_model(model, mesh, config)
            lora_utils.restore_lora_from_path(model, config)
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


if __name__ == "__main__":
    answer_notes(answer)
