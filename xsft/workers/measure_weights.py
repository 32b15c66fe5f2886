"""Measures weights with MaxText: greedy answers to prompts, and the loss over a held-out split. Runs as a program in
MaxText's environment: on this machine as one process (`workers.answering`), on a cluster as one per host
(`evaluation_container`).

The question is `{"models": [{"name": "base", "argv": [...]}, …], "prompts": [[{"role", "content"}, …], …] or null,
"most_prompts": n, "max_new_tokens": n, "rows": n}`. Each argv is a trainer's command line. Prompts of null: the first
user turns of the held-out split. `rows` of 0: no loss. The answer is `{"prompts": [...], "models": {name: {"answers":
[...], "loss": x, "targets": n, "rows": n}}}`.

The model and its loss are MaxText's own: maxtext@0.2.5 trainers/post_train/sft/train_sft.py setup_trainer_state and
trainers/pre_train/train.py loss_fn. MaxText's evaluation is not used: it fails for models with experts (common/
metric_logger.py reads a metric that SFT does not set). All processes have the same prompts and rows, and compute
together.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import islice
from typing import Any

from xsft.workers.answering import answer_question, configured

SHAPE_STEP = 128
"""Lengths are rounded up to a multiple of this, so that few lengths are compiled; attention kernels use blocks of
128."""


def evaluated(job: dict[str, Any]) -> dict[str, Any]:
    config = configured(job["models"][0]["argv"])
    tokenizer = tokenizer_of(config)
    rows, turns = held_out(config, rows=job["rows"])
    prompts = turns[: job["most_prompts"]] if job["prompts"] is None else formatted(job["prompts"], config)
    asked = [prompt_ids(tokenizer, one) for one in prompts]
    found = {}
    for one in job["models"]:
        print_progress(f"{one['name']}: loading the weights")
        with loaded(configured(one["argv"])) as model:
            answers = decoded(model, asked, job=job, tokenizer=tokenizer, name=one["name"])
            found[one["name"]] = {"answers": answers, **loss_of(model, rows, name=one["name"])}
    return {"prompts": prompts, "models": found}


def print_progress(text: str) -> None:
    sys.stdout.write(f"xsft evaluate: {text}\n")
    sys.stdout.flush()


def tokenizer_of(config: Any) -> Any:
    """Return the tokenizer with the chat template of the training. source: maxtext@0.2.5
    input_pipeline/hf_data_processing.py preprocessing_pipeline, data_processing_utils.py
    validate_and_configure_sft_columns."""
    import transformers  # type: ignore[import-not-found]
    from maxtext.input_pipeline.instruction_data_processing import (  # type: ignore[import-not-found]
        load_chat_template_from_file,
    )

    tokenizer = transformers.AutoTokenizer.from_pretrained(config.tokenizer_path)
    template = config.chat_template or load_chat_template_from_file(config.chat_template_path)
    if template:
        tokenizer.chat_template = template
    return tokenizer


def formatted(prompts: list[Any], config: Any) -> list[Any]:
    """Return the prompts with the texts that the training puts around a question, if it has any."""
    from maxtext.input_pipeline.instruction_data_processing import math_qa_formatting

    texts = (config.formatting_func_kwargs or {}).get("template_config")
    if not texts or not (config.formatting_func_path or "").endswith(".math_qa_formatting"):
        return list(prompts)
    around = [math_qa_formatting({"question": one[-1]["content"], "answer": ""}, texts) for one in prompts]
    return [[*one[:-1], made["messages"][0]] for one, made in zip(prompts, around, strict=True)]


def prompt_ids(tokenizer: Any, messages: Any) -> list[int]:
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def held_out(config: Any, *, rows: int) -> tuple[list[Any], list[Any]]:
    """Return the first rows of the held-out split, and the turns before each row's first answer.

    Every process reads all of them, one by one: MaxText would give each host other rows, and drop those at the end that
    do not fill a batch of all devices.
    """
    import jax  # type: ignore[import-not-found]
    from maxtext.input_pipeline.grain_data_processing import (  # type: ignore[import-not-found]
        make_grain_eval_iterator,
    )
    from maxtext.input_pipeline.hf_data_processing import make_hf_eval_iterator  # type: ignore[import-not-found]

    if not rows:
        return [], []
    made = make_grain_eval_iterator if config.dataset_type == "grain" else make_hf_eval_iterator
    one_device = jax.sharding.Mesh(jax.local_devices()[:1], ("one",))
    with watched() as turns:
        print_progress("reading the held-out split")
        split = made(RowByRow(config, jax.process_count()), one_device, [jax.process_index()])
        found = list(islice(until_the_end(split.local_iterator), rows))
    return found, turns


class RowByRow:
    """The configuration, with batches of one row in each process."""

    def __init__(self, config: Any, processes: int) -> None:
        self._config = config
        self.global_batch_size_to_load = self.global_batch_size_to_load_eval = processes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


@contextmanager
def watched() -> Any:
    """Yield a list that is filled with the messages before each row's first answer, in order."""
    from maxtext.input_pipeline import input_pipeline_utils  # type: ignore[import-not-found]

    original, turns = input_pipeline_utils.apply_chat_template, []

    def formatting(example: Any, **given: Any) -> Any:
        messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in example[given["data_column_name"]]]
        made = original(example, **given)
        first = next((at for at, one in enumerate(messages) if one["role"] == "assistant"), len(messages))
        turns.append(messages[:first])
        return made

    input_pipeline_utils.apply_chat_template = formatting
    try:
        yield turns
    finally:
        input_pipeline_utils.apply_chat_template = original


def until_the_end(rows: Any) -> Any:
    """Yield the rows until MaxText ends the data, which it does with an exception of its own."""
    try:
        yield from rows
    except StopIteration:
        return


class LoadedModel:
    """A model on its mesh, and the parts of it that a compiled function takes."""

    def __init__(self, config: Any, model: Any, mesh: Any) -> None:
        from flax import nnx  # type: ignore[import-not-found]

        nnx.pop(model, nnx.Intermediate)
        self.config, self.mesh = config, mesh
        self.graph, self.state = nnx.split(model)


@contextmanager
def loaded(config: Any) -> Any:
    """Yield the weights of a command line: those of load_parameters_path, with its adapters, or fresh random ones."""
    import jax
    from flax.core.spmd import logical_axis_rules  # type: ignore[import-not-found]
    from maxtext.utils import lora_utils, model_creation_utils  # type: ignore[import-not-found]

    model, mesh = model_creation_utils.from_pretrained(config)
    with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
        if config.lora.enable_lora:
            model = lora_utils.apply_lora_to_model(model, mesh, config)
            lora_utils.restore_lora_from_path(model, config)
        yield LoadedModel(config, model, mesh)


def decoded(model: LoadedModel, asked: list[list[int]], *, job: dict[str, Any], tokenizer: Any, name: str) -> list[Any]:
    """Return the greedy answers. Every token takes one forward pass over a fixed length, which is compiled once."""
    import numpy as np

    stops, most = stop_ids(tokenizer), job["max_new_tokens"]
    limit = model.config.max_target_length
    length = min(limit, rounded(max(map(len, asked), default=0) + most, SHAPE_STEP))
    size = rounded(len(asked), model.config.micro_batch_size_to_eval_on)
    tokens, ends = np.zeros((size, length), np.int32), np.ones(size, np.int32)
    for row, ids in enumerate(asked):
        kept = ids[-(length - 1) :]
        tokens[row, : len(kept)], ends[row] = kept, len(kept)
    starts, going, next_of = ends.copy(), np.arange(size) < len(asked), next_tokens(model)
    for at in range(most):
        going = going & (ends < length)
        if not going.any():
            break
        if at % 16 == 0:
            print_progress(f"{name}: token {at + 1} of at most {most}")
        chosen = np.asarray(next_of(tokens, ends))
        rows = np.flatnonzero(going)
        tokens[rows, ends[rows]] = chosen[rows]
        ends = ends + going
        going = going & ~np.isin(chosen, stops)
    cut = [len(ids) > length - 1 for ids in asked]
    said = [tokens[row, starts[row] : ends[row]].tolist() for row in range(len(asked))]
    return [answer_text(ids, tokenizer, stops=stops, most=most, cut=was) for ids, was in zip(said, cut, strict=True)]


def answer_text(ids: list[int], tokenizer: Any, *, stops: list[int], most: int, cut: bool) -> dict[str, Any]:
    ended = "stop" if ids and ids[-1] in stops else "length" if len(ids) == most else "context"
    return {"tokens": ids, "text": tokenizer.decode(ids, skip_special_tokens=True), "ended": ended, "prompt_cut": cut}


def rounded(size: int, step: int) -> int:
    return -(-max(size, 1) // step) * step


def stop_ids(tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer: the tokenizer's own, and the first special one after an answer in the
    template, as `<end_of_turn>` of Gemma."""
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "answered"}]
    after = tokenizer.apply_chat_template(turns, tokenize=False).rpartition("answered")[2]
    special = {*tokenizer.all_special_ids, *(i for i, one in tokenizer.added_tokens_decoder.items() if one.special)}
    first = next((i for i in tokenizer(after, add_special_tokens=False)["input_ids"] if i in special), None)
    return [i for i in dict.fromkeys((tokenizer.eos_token_id, first)) if i is not None]


def next_tokens(model: LoadedModel) -> Any:
    """Return a function (tokens, ends) -> the most likely token after each row's end, the lowest of equals."""
    import jax
    import jax.numpy as jnp  # type: ignore[import-not-found]
    from flax import nnx

    everywhere = jax.sharding.NamedSharding(model.mesh, jax.sharding.PartitionSpec())

    def step(state: Any, tokens: Any, ends: Any) -> Any:
        at = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
        logits = nnx.merge(model.graph, state)(
            decoder_input_tokens=tokens,
            decoder_positions=at,
            decoder_segment_ids=(at < ends[:, None]).astype(jnp.int32),
            enable_dropout=False,
        )
        last = jnp.take_along_axis(logits, (ends - 1)[:, None, None], axis=1)[:, 0]
        return jnp.argmax(last, axis=-1).astype(jnp.int32)

    compiled = jax.jit(step, out_shardings=everywhere)
    return lambda tokens, ends: compiled(model.state, placed(tokens, everywhere), placed(ends, everywhere))


def placed(array: Any, sharding: Any) -> Any:
    """Return the array on the devices of all processes, each of which has the whole of it."""
    import jax

    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def loss_of(model: LoadedModel, rows: list[Any], *, name: str) -> dict[str, Any]:
    """Return the mean cross-entropy in nats over all trained targets of the rows; None without any."""
    total, targets, measured = 0.0, 0, loss_sums(model)
    for done, batch in batches(rows, size=int(model.config.micro_batch_size_to_eval_on)):
        if done % (16 * len(batch["inputs"])) == 0:
            print_progress(f"{name}: loss of row {done + 1} of {len(rows)}")
        summed, count = measured(batch)
        total, targets = total + float(summed), targets + int(count)
    return {"loss": total / targets if targets else None, "targets": targets, "rows": len(rows)}


def batches(rows: list[Any], *, size: int) -> Any:
    """Yield the number of rows before each batch, and the batch; the last one is filled up with copies of a row whose
    targets do not count."""
    import numpy as np

    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        uncounted = {**part[0], "targets_segmentation": np.zeros_like(part[0]["targets_segmentation"])}
        whole = [*part, *(uncounted for _ in range(size - len(part)))]
        yield at, {key: np.concatenate([one[key] for one in whole]) for key in part[0]}


def loss_sums(model: LoadedModel) -> Any:
    """Return a function batch -> (sum of the cross-entropy, number of its targets), by MaxText's own loss."""
    import jax
    from flax import nnx
    from maxtext.trainers.pre_train.train import loss_fn  # type: ignore[import-not-found]

    def sums(state: Any, batch: Any) -> Any:
        merged = nnx.merge(model.graph, state)
        _, found = loss_fn(merged, model.config, dict(batch), dropout_rng=None, params=None, is_train=False)
        return found["xent_sum"], found["total_weights"]

    everywhere = jax.sharding.NamedSharding(model.mesh, jax.sharding.PartitionSpec())
    by_row = jax.sharding.NamedSharding(model.mesh, jax.sharding.PartitionSpec(model.mesh.axis_names))
    compiled = jax.jit(sums, out_shardings=everywhere)
    return lambda batch: compiled(model.state, {key: placed(one, by_row) for key, one in batch.items()})


if __name__ == "__main__":
    answer_question(evaluated)
