"""Reads a workload's data through MaxText's own input pipeline. Runs as a program in MaxText's environment
(`workers.answering`).

`{"passes": [{"argv": [...], "rows": n, "split": "train", "expected": n}], "partial": [split, ...], "footed": [file,
...]}` becomes `{"passes": [...], "vocabulary": {...}}`: the sequences, and of each row what MaxText got and the texts
that it made of it (`data.passes.PassRead`). `{"rows": n, "seconds": s, "total": n}` goes to stdout every two seconds of
a pass. A partial split has more rows than its files; a footed file has only its first row group and its footer.

As maxtext@0.2.5 trainers/post_train/sft/train_sft.py and trainers/post_train/hooks.py go about it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from xsft.workers.answering import answer_question, configured
from xsft.workers.row_shape import ROLES, shape_fault

EVERY_S = 2.0
MORE_ROWS = 20_000
"""Rows whose shape is read: 1 s. Those that MaxText formats are fewer."""
NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Values of a key or column that holds nothing: datasets gives a key that some rows lack the value null."""


def answer(job: dict[str, Any]) -> dict[str, Any]:
    for file in job["footed"]:
        keep_first_group(file)
    configs = [configured(data_pass.pop("argv")) for data_pass in job["passes"]]
    passes = [read_batches(config, **data_pass) for config, data_pass in zip(configs, job["passes"], strict=True)]
    ids = {
        token
        for data_pass in passes
        for row in data_pass["rows"]
        for token in (*row["inputs"], row["last"])
        if token is not None and token >= 0
    }
    vocabulary = vocabulary_of(tokenizer_of(configs[0]), ids)
    return {"passes": passes, "vocabulary": {**vocabulary, "rows": int(configs[0].vocab_size)}}


def keep_first_group(file: str) -> None:
    """Write the first row group in place of a parquet file whose middle is missing."""
    from pyarrow import parquet  # type: ignore[import-not-found]

    parquet.write_table(parquet.ParquetFile(file).read_row_group(0), f"{file}.first")
    Path(f"{file}.first").replace(file)


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
        return bytes(table[character] for character in name) if all(character in table for character in name) else b""


def stand_ins() -> dict[str, int]:
    """Return character -> byte. source: openai/gpt-2 src/encoder.py bytes_to_unicode."""
    same = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in same]
    return {**{chr(byte): byte for byte in same}, **{chr(256 + number): byte for number, byte in enumerate(others)}}


def tokenizer_of(config: Any) -> Any:
    import transformers  # type: ignore[import-not-found]

    return transformers.AutoTokenizer.from_pretrained(config.tokenizer_path)


def pad_of(tokenizer: Any) -> int:
    """Return the padding id. As maxtext@0.2.5 input_pipeline/hf_data_processing.py [_get_pad_id]."""
    candidates = (tokenizer.pad_token_id, tokenizer.unk_token_id, -1)
    return next(token for token in candidates if token is not None)


def read_batches(config: Any, *, rows: int, split: str, expected: int | None) -> dict[str, Any]:
    """Return the sequences up to the first error that is not of one row, and that error."""
    from maxtext.input_pipeline import multihost_dataloading  # type: ignore[import-not-found]

    # MaxText ends every orphaned multiprocessing process of the machine when an iterator closes; here are no workers.
    setattr(multihost_dataloading, "_cleanup_orphaned_multiprocessing_processes", lambda: None)  # noqa: B010 - private
    tokenizer = tokenizer_of(config)
    sequences: list[Any] = []
    error = ""
    with watched(tokenizer) as formatted_rows:
        try:
            batches = islice(until_the_end(iterator_of(config, split)), rows)
            sequences.extend(sequence(batch, pad=pad_of(tokenizer)) for batch in counted(batches, expected=expected))
        except (Exception, SystemExit) as failed:
            error = f"{type(failed).__name__}: {failed}"
    answer = {"rows": sequences, "ended": len(sequences) < rows and not error, "error": error}
    if config.packing:
        return answer
    files = rows_of_files(config, rows=rows, split=split)
    return {**answer, "given": formatted_rows[: len(sequences)], **files, "error": error or files["error"]}


def iterator_of(config: Any, split: str) -> Any:
    from maxtext.input_pipeline import input_pipeline_interface
    from maxtext.utils import maxtext_utils  # type: ignore[import-not-found]

    mesh = maxtext_utils.get_mesh_from_config(config)
    return input_pipeline_interface.create_data_iterator(config, mesh)[("train", "eval").index(split)]


def rows_of_files(config: Any, *, rows: int, split: str) -> dict[str, Any]:
    """Return what the pipeline drops before a row is formatted: faults of its shape, and columns that are not read; of
    files also the error of a later row or file.
    """
    columns = list(getattr(config, f"{split}_data_columns"))
    faults: list[Any] = []
    unread: dict[str, list[int]] = {}
    keys: set[tuple[str, ...]] = set()
    error = ""
    try:
        for number, read in enumerate(islice(stream_of(config, split), max(rows, MORE_ROWS))):
            if fault := shape_fault(read, columns, texts=config.dataset_type == "grain"):
                faults.append({"row": number, "id": fault.id, "fault": fault.why})
            elif number < rows:
                keys |= message_keys(read, columns)
            for column in read.keys() - columns if number < rows else ():
                if read[column] not in NOTHING:
                    unread.setdefault(column, []).append(number)
    except Exception as failed:
        error = f"{type(failed).__name__}: {failed}"
    return {"faults": faults, "columns": unread, "keys": sorted(keys), "error": error}


def message_keys(read: dict[str, Any], columns: list[str]) -> set[tuple[str, ...]]:
    """Return the different sets of keys of the row's messages."""
    lists = (read[column] for column in columns if isinstance(read[column], list))
    return {tuple(message) for messages in lists for message in messages}


def stream_of(config: Any, split: str) -> Any:
    """Return the rows as maxtext@0.2.5 input_pipeline/hf_data_processing.py [make_hf_train_iterator] reads them."""
    import datasets  # type: ignore[import-not-found]

    if config.dataset_type == "grain":
        files = getattr(config, f"grain_{split}_files")
        return datasets.load_dataset(config.grain_file_type, data_files=files, split="train", streaming=True)
    return datasets.load_dataset(
        config.hf_path,
        name=config.hf_name,
        data_dir=config.hf_data_dir,
        data_files=getattr(config, f"hf_{split}_files"),
        split=config.train_split if split == "train" else config.hf_eval_split,
        streaming=True,
    )


def counted(batches: Iterable[Any], *, expected: int | None) -> Iterator[Any]:
    """Yield the batches, and print `{"rows": n, "seconds": s, "total": expected}` every two seconds."""
    began = reported = time.monotonic()
    for number, batch in enumerate(batches, 1):
        yield batch
        now = time.monotonic()
        if now >= reported + EVERY_S:
            reported = now
            sys.stdout.write(f"{json.dumps({'rows': number, 'seconds': now - began, 'total': expected})}\n")
            sys.stdout.flush()


@contextmanager
def watched(tokenizer: Any) -> Any:
    """Yield a list that is filled with each row that MaxText formats, in order. A row on which MaxText fails becomes an
    empty sequence, with its fault in the list; the other rows are not changed.
    """
    from maxtext.input_pipeline import input_pipeline_utils, instruction_data_processing

    chat, question = input_pipeline_utils.apply_chat_template, instruction_data_processing.math_qa_formatting
    masking = input_pipeline_utils.SFTPromptMasking.map
    given: list[dict[str, Any]] = []
    faults: list[str] = []
    measured_rows = count()

    def formatted(example: Any, tokenizer_model: Any, data_column_name: str) -> Any:
        messages = [] if example[data_column_name] is None else list(example[data_column_name])
        again = partial(chat_texts, chat, example, tokenizer_model, data_column_name)
        texts, fault = texts_or_fault(again, messages)
        if faults and faults[len(given)]:
            fault = faults[len(given)]
        given.append({"fault": fault, "texts": texts, "messages": given_messages(messages, texts, tokenizer, again)})
        texts = texts or [""]  # the pipeline stops at a column of empty lists
        return {**example, data_column_name: texts, "is_prompt": [at % 2 == 0 for at in range(len(texts))]}

    def questioned(example: Any, **named: Any) -> Any:
        try:
            made = question(example, **named)
            faults.append("")
        except Exception as failed:
            made = {**example, "messages": []}
            faults.append(f"stops MaxText: {failed}")
        return made

    def measured(transform: Any, element: Any) -> Any:
        given[next(measured_rows)]["length"] = sum(map(len, element[transform.text_column_name]))
        return masking(transform, element)

    input_pipeline_utils.apply_chat_template, instruction_data_processing.math_qa_formatting = formatted, questioned
    input_pipeline_utils.SFTPromptMasking.map = measured
    try:
        yield given
    finally:
        input_pipeline_utils.apply_chat_template, instruction_data_processing.math_qa_formatting = chat, question
        input_pipeline_utils.SFTPromptMasking.map = masking


def texts_or_fault(again: Callable[[list[Any]], list[str]], messages: list[Any]) -> tuple[list[str], str]:
    """Return the texts of a row; if MaxText fails on it, none and why, which completes "the row …"."""
    try:
        texts = again(messages)
    except Exception as failed:
        return [], f"stops MaxText: {failed}"
    if texts:
        return texts, ""
    roles = ", ".join(dict.fromkeys(str(message["role"]) for message in messages)) or "none"
    return [], f"has no message of the role assistant; its roles are {roles}"


def chat_texts(chat: Any, example: Any, tokenizer: Any, column: str, messages: list[Any]) -> list[str]:
    """Return the texts that MaxText makes of other messages in place of the row's."""
    rendered = chat({**example, column: messages}, tokenizer_model=tokenizer, data_column_name=column)
    return list(rendered[column])


def given_messages(messages: list[Any], texts: list[str], tokenizer: Any, again: Any) -> list[dict[str, Any]]:
    """Return the messages of a row with what MaxText reads of them."""
    written = squeezed("".join(texts))
    unread = [
        key
        for key in keys_besides(messages)
        if texts and again([without(message, key) for message in messages]) == texts
    ]
    return [turn(message, written, tokenizer, unread) for message in messages if isinstance(message, dict)]


def keys_besides(messages: list[Any]) -> list[str]:
    """Return the keys with a value in some message, except role and content."""
    named = (key for message in messages if isinstance(message, dict) for key in message if message[key] not in NOTHING)
    return [key for key in dict.fromkeys(named) if key not in ("role", "content")]


def without(message: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: part for name, part in message.items() if name != key}


def turn(message: dict[str, Any], written: str, tokenizer: Any, unread: list[str]) -> dict[str, Any]:
    """Return one message. MaxText decodes what it tokenized, which may normalize the text; `written` is searched for
    that too.
    """
    content = message.get("content")
    text = ""
    if isinstance(content, str):
        text = content
    elif content is not None:
        text = json.dumps(content, default=str)
    if squeezed(text) not in written:
        normalized = str(tokenizer.decode(plain_tokens(tokenizer, text)))
        text = normalized if squeezed(normalized) in written else text
    keys = {key: str(message[key]) for key in unread if message.get(key) not in NOTHING}
    return {
        "role": str(message.get("role")),
        "text": text,
        "kind": type(content).__name__,
        "written": message.get("role") in ROLES and squeezed(text) in written,
        "unread": keys,
    }


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


def sequence(batch: Any, *, pad: int) -> dict[str, Any]:
    """Return the first sequence of a batch of one; trailing padding as a number."""
    columns = ("inputs", "targets", "targets_segmentation", "inputs_segmentation")
    inputs, targets, counts, segments = (batch[name][0].tolist() for name in columns)
    trained = [count != 0 for count in counts]
    used = length_of(inputs, trained, segments, pad=pad)
    last = targets[used - 1] if used and used == len(inputs) and trained[used - 1] else None
    tokens = {"inputs": inputs[:used], "trained": trained[:used], "segments": segments[:used]}
    return {**tokens, "padding": len(inputs) - used, "last": last}


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
