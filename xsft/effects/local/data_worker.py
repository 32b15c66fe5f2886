"""Reads a workload's data through MaxText's own input pipeline. Runs as a program in MaxText's environment.

usage: data_worker.py JOB ANSWER. JOB is `{"passes": [{"argv": [...], "rows": n, "lengths_only": bool}]}`; ANSWER
becomes `{"passes": [{"rows": [...], "ended": bool}], "texts": {id: text}}`, or `{"error": "..."}`.

As maxtext@0.2.5 trainers/post_train/sft/train_sft.py and trainers/post_train/hooks.py go about it.
"""

from __future__ import annotations

import json
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any


def answer(job: dict[str, Any]) -> dict[str, Any]:
    try:
        passes = [read(**one) for one in job["passes"]]
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever MaxText says is the answer
        return {"error": f"{type(problem).__name__}: {problem}"}
    shown = (row for one in passes for row in one["rows"] if isinstance(row, dict))
    ids = {token for row in shown for token in (*row["inputs"], row["last"]) if token is not None and token >= 0}
    tokenizer = tokenizer_of(configured(job["passes"][0]["argv"]))
    return {"passes": passes, "texts": {token: tokenizer.decode([token]) for token in ids}}


def tokenizer_of(config: Any) -> Any:
    import transformers  # type: ignore[import-not-found]

    return transformers.AutoTokenizer.from_pretrained(config.tokenizer_path)


def pad_of(tokenizer: Any) -> int:
    """As maxtext@0.2.5 input_pipeline/hf_data_processing.py [_get_pad_id]."""
    found = (tokenizer.pad_token_id, tokenizer.unk_token_id, -1)
    return next(token for token in found if token is not None)


def configured(argv: list[str]) -> Any:
    from maxtext.configs import pyconfig  # type: ignore[import-not-found]

    module, *arguments = argv[argv.index("-m") + 1 :]
    found = find_spec(module)
    return pyconfig.initialize_pydantic([found.origin if found else module, *arguments])


def read(*, argv: list[str], rows: int, lengths_only: bool) -> dict[str, Any]:
    from maxtext.input_pipeline import input_pipeline_interface  # type: ignore[import-not-found]
    from maxtext.utils import maxtext_utils  # type: ignore[import-not-found]

    config = configured(argv)
    train, _eval = input_pipeline_interface.create_data_iterator(config, maxtext_utils.get_mesh_from_config(config))
    pad = pad_of(tokenizer_of(config))
    found = [row(batch, pad=pad, lengths_only=lengths_only) for batch in islice(until_the_end(train), rows)]
    return {"rows": found, "ended": len(found) < rows}


def until_the_end(batches: Any) -> Any:
    """MaxText ends the data with an exception of its own."""
    try:
        yield from batches
    except StopIteration:
        return


def row(batch: Any, *, pad: int, lengths_only: bool) -> Any:
    """The first sequence of a batch of one; trailing padding as a number."""
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
    """Without the padding at the end. Without packing MaxText calls padding a segment, too, where its id is not 0."""
    end = len(inputs)
    while end and (segments[end - 1] == 0 or inputs[end - 1] == pad) and not any(trained[max(0, end - 2) : end]):
        end -= 1
    return end


def main(job: Path, into: Path) -> None:
    into.write_text(json.dumps(answer(json.loads(job.read_text()))))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
