"""Runs in MaxText's environment: what MaxText's own input pipeline gives the trainer for a command line.

Serves until its standard input ends, one JSON document a line: `{"argv": […], "batches": n}` is answered by
`{"rows": […], "tokens": {id: text}, "said": […]}`, or by `{"error": "…", "said": […]}`. Importing MaxText takes
seconds and a pipeline tenths of one, so one process answers many. `order` and `shuffles` ask which rows it reads.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import unittest  # noqa: F401 - MaxText exits the process on a configuration error unless it sees this module
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

import datasets
import pyarrow as pa
import transformers
from absl import logging as absl_logging
from maxtext.configs import pyconfig
from maxtext.input_pipeline import hf_data_processing, input_pipeline_interface
from maxtext.input_pipeline.input_pipeline_utils import HFDataSource
from maxtext.utils import maxtext_utils
from pyarrow import parquet

COLUMNS = ("inputs", "inputs_segmentation", "targets", "targets_segmentation")


def main(questions: IO[str], answers: IO[str]) -> None:
    sys.path.append(str(Path(__file__).parent))  # -I leaves it out
    from maxtext_quick import quicken

    quicken()
    heard = ActionListener()
    absl_logging.set_verbosity(absl_logging.INFO)
    logging.getLogger().addHandler(heard)
    for line in questions:
        reply = answer(json.loads(line))
        print(json.dumps({**reply, "said": heard.said}), file=answers, flush=True)
        heard.said = []


class ActionListener(logging.Handler):
    """MaxText logs what it drops."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        if "parquet" in question:
            parquet.write_table(pa.Table.from_pylist(question["rows"]), question["parquet"])
            return {}
        if "order" in question:
            return {"order": order(question["order"], **question["how"])}
        if "program" in question:
            return examples(**question["program"])
        if "shuffles" in question:
            return {"shuffles": shuffles(**question["shuffles"])}
        return rows(question["argv"], batches=question["batches"])
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever MaxText says is the answer
        return {"error": f"{type(problem).__name__}: {problem}"}


def rows(argv: list[str], *, batches: int) -> dict[str, Any]:
    """Read rows as maxtext@0.2.5 trainers/post_train/sft/train_sft.py and trainers/post_train/hooks.py do."""
    config = configured(argv)
    train, _eval = input_pipeline_interface.create_data_iterator(config, maxtext_utils.get_mesh_from_config(config))
    row_list = [row for batch in islice(train, batches) for row in rows_of(batch)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(config.tokenizer_path)
    # -1 stands for the pad of a tokenizer that has none.
    ids = {token for row in row_list for token in (*row["inputs"], *row["targets"]) if token >= 0}
    return {"rows": row_list, "tokens": {token: tokenizer.decode([token]) for token in ids}}


def configured(argv: list[str]) -> Any:
    module, *arguments = argv[argv.index("-m") + 1 :]
    trainer = find_spec(module)
    assert trainer is not None
    return pyconfig.initialize_pydantic([trainer.origin, *arguments])


def examples(*, folder: str, job: dict[str, Any]) -> dict[str, Any]:
    """Return what xsft's own program answers. Its packages are bare, as in workers/entry.py."""
    for name in ("xsft", "xsft.workers"):
        sys.modules.setdefault(name, ModuleType(name)).__path__ = [folder]
    return dict(import_module("xsft.workers.read_examples").answer(job))


def rows_of(batch: Any) -> Iterator[dict[str, list[int]]]:
    columns = [batch[name].tolist() for name in COLUMNS]
    for values in zip(*columns, strict=True):
        yield dict(zip(COLUMNS, values, strict=True))


def order(files: str, *, seed: int, hosts: int, rows: int) -> list[list[int]]:
    """Column `row` of the first rows that each host reads.

    As maxtext@0.2.5 input_pipeline/hf_data_processing.py loads, shuffles and splits them; `shuffles` holds it to that.
    """
    loaded = datasets.load_dataset("json", data_files=files, split="train", streaming=True).shuffle(seed=seed)
    sources = (HFDataSource(loaded, host, hosts, 1, 128, ["row"]) for host in range(hosts))
    return [first(source, rows) for source in sources]


def first(source: HFDataSource, rows: int) -> list[int]:
    """Read in a thread with a number in its name, by which MaxText finds the iterator."""
    with ThreadPoolExecutor(1, thread_name_prefix="reader") as reader:
        return reader.submit(lambda: [source[index]["row"] for index in range(rows)]).result()


class Stop(Exception):
    """Raised after the rows are shuffled: the later processing is not tested."""


class Shuffled:
    """Stands for the rows, and writes down every call of `shuffle`."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def shuffle(self, *positional: Any, **named: Any) -> Shuffled:
        self.asked.append({**named, **({"positional": positional} if positional else {})})
        return self

    def select_columns(self, _names: Any) -> None:
        raise Stop


def shuffles(*, seed: int, epochs: int, tokenizer: str) -> list[dict[str, Any]]:
    """The arguments of each call of `shuffle` that MaxText makes."""
    rows = Shuffled()
    settings = {"shuffle": True, "data_shuffle_seed": seed, "num_epoch": epochs, "tokenizer_path": tokenizer}
    one_host = {
        "dataloading_host_index": 0,
        "dataloading_host_count": 1,
        "global_batch_size": 1,
        "max_target_length": 8,
    }
    none = dict.fromkeys(("data_column_names", "tokenize", "hf_access_token"))
    here = {"config": SimpleNamespace(elastic_enabled=False), "global_mesh": SimpleNamespace(size=1)}
    with patch.object(datasets, "concatenate_datasets", lambda _epochs: rows), suppress(Stop):
        hf_data_processing.preprocessing_pipeline(dataset=rows, **settings, **one_host, **none, **here)
    return rows.asked


if __name__ == "__main__":
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # MaxText prints
    main(sys.stdin, channel)
