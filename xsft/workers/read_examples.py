"""Reads a workload's data through MaxText's own input pipeline. Runs as a program in MaxText's environment
(`workers.answering`).

`{"passes": [{"argv": [...], "rows": n, "split": "train", "lengths_only": bool, "expected": n}]}` becomes `{"passes":
[{"rows": [...], "turns": [...], "ended": bool}], "vocabulary": {...}}`. `{"rows": n, "seconds": s, "total": n}` goes to
stdout every two seconds of a pass.

As maxtext@0.2.5 trainers/post_train/sft/train_sft.py and trainers/post_train/hooks.py go about it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from xsft.workers.answering import answer_question
from xsft.workers.maxtext_config import configured

EVERY_S = 2.0


def answer(job: dict[str, Any]) -> dict[str, Any]:
    configs = [configured(one.pop("argv")) for one in job["passes"]]
    passes = [read_batches(config, **one) for config, one in zip(configs, job["passes"], strict=True)]
    shown = (row for one in passes for row in one["rows"] if isinstance(row, dict))
    ids = {token for row in shown for token in (*row["inputs"], row["last"]) if token is not None and token >= 0}
    vocabulary = vocabulary_of(tokenizer_of(configs[0]), ids)
    return {"passes": passes, "vocabulary": {**vocabulary, "rows": int(configs[0].vocab_size)}}


def vocabulary_of(tokenizer: Any, ids: set[int]) -> dict[str, Any]:
    """Return the texts as hexadecimal UTF-8: a token may hold part of a character."""
    roles = {"BOS": "bos", "EOS": "eos", "pad": "pad", "unknown": "unk"}
    by_role = {kind: getattr(tokenizer, f"{role}_token_id") for kind, role in roles.items()}
    special = {*tokenizer.all_special_ids, *(i for i, one in tokenizer.added_tokens_decoder.items() if one.special)}
    kinds = {**dict.fromkeys(special, "special"), **{i: kind for kind, i in reversed(by_role.items()) if i is not None}}
    named = {kind: tokenizer.decode([i]) for kind, i in by_role.items() if i is not None}
    spoken = TokenBytes(tokenizer)
    return {"texts": {token: spoken.text(token).hex() for token in ids}, "kinds": kinds, "named": named}


class TokenBytes:
    """The bytes of single tokens: each is decoded after another token, so that a leading space is kept."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.before = tokenizer("a", add_special_tokens=False)["input_ids"][-1:]
        self.start = len(tokenizer.decode(self.before))

    def text(self, token: int) -> bytes:
        text = str(self.tokenizer.decode([*self.before, token])[self.start :])
        return self.raw(token) or text.encode() if "\ufffd" in text else text.encode()

    def raw(self, token: int) -> bytes:
        """Return the bytes of a token that is not a whole character: `<0xE2>` in SentencePiece, stand-ins for bytes in
        GPT-2's encoding.
        """
        name = self.tokenizer.convert_ids_to_tokens(token)
        if name.startswith("<0x"):
            return bytes((int(name[3:-1], 16),))
        table = stand_ins()
        return bytes(table[one] for one in name) if all(one in table for one in name) else b""


def stand_ins() -> dict[str, int]:
    """Return character -> byte. source: openai/gpt-2 src/encoder.py bytes_to_unicode."""
    same = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in same]
    return {**{chr(byte): byte for byte in same}, **{chr(256 + at): byte for at, byte in enumerate(others)}}


def tokenizer_of(config: Any) -> Any:
    import transformers  # type: ignore[import-not-found]

    return transformers.AutoTokenizer.from_pretrained(config.tokenizer_path)


def pad_of(tokenizer: Any) -> int:
    """Return the padding id. As maxtext@0.2.5 input_pipeline/hf_data_processing.py [_get_pad_id]."""
    found = (tokenizer.pad_token_id, tokenizer.unk_token_id, -1)
    return next(token for token in found if token is not None)


def read_batches(config: Any, *, rows: int, split: str, lengths_only: bool, expected: int | None) -> dict[str, Any]:
    from maxtext.input_pipeline import input_pipeline_interface  # type: ignore[import-not-found]
    from maxtext.utils import maxtext_utils  # type: ignore[import-not-found]

    tokenizer = tokenizer_of(config)
    with watched(tokenizer, quiet=lengths_only) as turns:
        mesh = maxtext_utils.get_mesh_from_config(config)
        iterators = dict(
            zip(("train", "eval"), input_pipeline_interface.create_data_iterator(config, mesh), strict=True)
        )
        batches = counted(islice(until_the_end(iterators[split]), rows), expected=expected)
        found = [row(batch, pad=pad_of(tokenizer), lengths_only=lengths_only) for batch in batches]
    return {"rows": found, "turns": [] if config.packing else turns[: len(found)], "ended": len(found) < rows}


def counted(batches: Iterable[Any], *, expected: int | None) -> Iterator[Any]:
    """Yield the batches, and print `{"rows": n, "seconds": s, "total": expected}` every two seconds."""
    began = said = time.monotonic()
    for number, batch in enumerate(batches, 1):
        yield batch
        now = time.monotonic()
        if now >= said + EVERY_S:
            said = now
            sys.stdout.write(f"{json.dumps({'rows': number, 'seconds': now - began, 'total': expected})}\n")
            sys.stdout.flush()


@contextmanager
def watched(tokenizer: Any, *, quiet: bool) -> Any:
    """Yield a list that is filled with the turns of each row that MaxText formats, in order; the rows are not
    changed.
    """
    from maxtext.input_pipeline import input_pipeline_utils

    original, turns = input_pipeline_utils.apply_chat_template, []

    def formatted(example: Any, **given: Any) -> Any:
        column = example[given["data_column_name"]]  # Grain passes an array
        messages = [] if column is None else list(column)
        made = original(example, **given)
        written = squeezed("".join(made[given["data_column_name"]]))
        turns.append([turn(one, written, tokenizer) for one in messages])
        return made

    if not quiet:
        input_pipeline_utils.apply_chat_template = formatted
    try:
        yield turns
    finally:
        input_pipeline_utils.apply_chat_template = original


def turn(message: Any, written: str, tokenizer: Any) -> dict[str, Any]:
    """Return one turn. MaxText decodes what it tokenized, which may normalize the text; `written` is searched for that
    too.
    """
    text = squeezed(message["content"] or "")
    there = text in written or squeezed(tokenizer.decode(plain_tokens(tokenizer, message["content"]))) in written
    return {"role": str(message["role"]), "empty": not text, "written": there}


def plain_tokens(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def squeezed(text: str) -> str:
    return "".join(text.split())


def until_the_end(batches: Any) -> Any:
    """Yield the batches until MaxText ends the data, which it does with an exception of its own."""
    try:
        yield from batches
    except StopIteration:
        return


def row(batch: Any, *, pad: int, lengths_only: bool) -> Any:
    """Return the first sequence of a batch of one; trailing padding as a number."""
    columns = ("inputs", "targets", "targets_segmentation", "inputs_segmentation")
    inputs, targets, counts, segments = (batch[name][0].tolist() for name in columns)
    trained = [count != 0 for count in counts]
    used = length_of(inputs, trained, segments, pad=pad)
    if lengths_only:
        return used
    last = targets[used - 1] if used and used == len(inputs) and trained[used - 1] else None
    kept = {"inputs": inputs[:used], "trained": trained[:used], "segments": segments[:used]}
    return {**kept, "padding": len(inputs) - used, "last": last}


def length_of(inputs: list[int], trained: list[bool], segments: list[int], *, pad: int) -> int:
    """Return the length without the padding at the end. Without packing MaxText also counts padding as a segment if its
    id is not 0.
    """
    end = len(inputs)
    while end and (segments[end - 1] == 0 or inputs[end - 1] == pad) and not any(trained[max(0, end - 2) : end]):
        end -= 1
    return end


if __name__ == "__main__":
    answer_question(answer)
