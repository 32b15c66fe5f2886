"""Counts, checks and writes the rows of a data set. Runs as a program in MaxText's environment, which has `datasets`.

The question (`workers.answering`) names an action and what its function reads, e.g. `{"action": "count", "sources":
[{"load": {...}, "columns": {old: new}, "splits": [name, ...], "share": x}], "rule": ..., "sharegpt": bool}`; a source
of two splits gives the share `x` of its rows to the second. The answer is what the function returns, or
`{"missing": why}`. `{"rows": n, "seconds": s}` goes to stdout every two seconds, `{"fetched":
bytes, "seconds": s}` while no row arrives, and each whole shard.

Rows are streamed, in their order: what is held at a time is a batch, and a part of a shard.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from xsft.workers.answering import answer_question
from xsft.workers.row_shape import ROLES, is_question, messages_of, shape_fault

BATCH = 1000
"""Rows read and written at a time."""
SHOWN = 5
"""Maximum number of refused rows reported per split."""
EVERY_S = 2.0

SHAREGPT = {"human": "user", "gpt": "assistant", "system": "system", "user": "user", "assistant": "assistant"}

DatasetRow = dict[str, Any]


def rule_of(rule: str, columns: Sequence[str]) -> Callable[[DatasetRow], str]:
    """Return a function that states why a row is not prepared; an empty text if it is."""
    if rule == "none":
        return lambda _row: ""
    return partial(row_fault, columns=columns, texts=rule == "texts")


def row_fault(row: DatasetRow, *, columns: Sequence[str], texts: bool) -> str:
    """Return why MaxText fails on the row, or would train only a part of it; empty if neither."""
    fault = shape_fault(row, columns, texts=texts)
    if fault:
        return fault.why
    if is_question(columns, texts=texts):
        question, answer = sorted(columns, key=("question", "prompt", "answer", "completion").index)
        messages = [{"role": "user", "content": row[question]}, {"role": "assistant", "content": row[answer]}]
    elif len({len(row[column]) for column in columns}) > 1:
        return f"has different numbers of messages in {' and '.join(columns)}"
    else:
        messages = messages_of(row, columns)
    return next(filter(None, map(message_loss, messages)), "")


def message_loss(message: DatasetRow) -> str:
    """Return why MaxText does not train on the message unchanged; empty if it does."""
    role, content = message["role"], message["content"]
    if role not in ROLES:
        return f"has a message of the role {role!r}, which MaxText drops; it takes {', '.join(ROLES)}"
    if content is None:
        return f"has a message of the role {role} that is null"
    if not isinstance(content, str):
        return f"has a message of the role {role} that is not text"
    if not content.strip() and role != "system":  # some files have an empty system message on purpose
        return f"has an empty message of the role {role}"
    return ""


def from_sharegpt(value: Any) -> Any:
    """Return `[{"from": "human", "value": …}]` as turns with role and content; any other value unchanged."""
    if not isinstance(value, list) or not all(isinstance(turn, dict) and "from" in turn for turn in value):
        return value
    return [{"role": SHAREGPT.get(turn["from"], turn["from"]), "content": turn.get("value")} for turn in value]


def held_out(row: DatasetRow, share: float) -> bool:
    """Return whether the row belongs to the share. Decided by its content, so that equal rows are in one split."""
    content = json.dumps(row, sort_keys=True, ensure_ascii=True, default=str).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8]) < share * 2**64


def renamed_rows(source: Mapping[str, Any]) -> Iterator[DatasetRow]:
    """Yield the selected columns of each row, under their new names. Raises MissingColumns."""
    import datasets  # type: ignore[import-not-found]

    columns = source["columns"]
    try:
        stream = datasets.load_dataset(**source["load"], streaming=True)
    except StopIteration:  # the files are empty
        return
    for batch in stream.iter(batch_size=BATCH):
        if not columns.keys() <= batch.keys():
            first = {column: values[0] for column, values in batch.items()}
            raise MissingColumns(shape_fault(first, tuple(columns)))
        selected = (batch[column] for column in columns)
        yield from (joined_row(columns.values(), values) for values in zip(*selected, strict=True))


def joined_row(names: Iterable[str], values: Sequence[Any]) -> DatasetRow:
    """Return the row. The texts of columns with one name are joined, each on a line of its own, without empty ones, as
    github.com/hiyouga/LLaMA-Factory src/llamafactory/data/converter.py joins instruction and input of Alpaca.
    """
    row: DatasetRow = {}
    for name, text in zip(names, values, strict=True):
        if name in row:
            text = "\n".join(filter(None, (row[name], text)))  # noqa: PLW2901
        row[name] = text
    return row


class MissingColumns(Exception):
    """Columns that the workload names and the data lacks."""


class PrepareProgress:
    """A counter that reports every two seconds how many rows were read, and the bytes that came from the hub."""

    def __init__(self) -> None:
        self.rows = self.fetched = 0
        self._began = 0.0
        self._ended = Event()

    def count(self) -> None:
        if not self.rows:  # `datasets` is already imported here
            self._began = time.monotonic()
        self.rows += 1

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        Thread(target=self._report, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _report(self) -> None:
        before = 0
        while not self._ended.wait(EVERY_S):
            seconds = time.monotonic() - self._began
            if self.rows > before:
                tell({"rows": self.rows, "seconds": seconds})
            elif self.fetched:
                tell({"fetched": self.fetched, "seconds": seconds})
            before = self.rows


def count_fetched(progress: PrepareProgress) -> None:
    """Count the bytes that arrive from the hub. source: huggingface_hub@2.4.0 hf_file_system.py."""
    from huggingface_hub import hf_file_system  # type: ignore[import-not-found]

    def counting(read: Callable[..., bytes]) -> Callable[..., bytes]:
        def counted(*arguments: Any, **named: Any) -> bytes:
            content = read(*arguments, **named)
            progress.fetched += len(content)
            return content

        return counted

    readers = ((hf_file_system.HfFileSystemFile, "_fetch_range"), (hf_file_system.HfFileSystemStreamFile, "read"))
    for kind, name in readers:
        setattr(kind, name, counting(getattr(kind, name)))


def tell(what: Mapping[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def rows_to_keep(job: Mapping[str, Any], refused: Callable[[str, int, str], None]) -> Iterator[tuple[str, DatasetRow]]:
    """Yield (split, row) for all rows that MaxText can train on, and report the progress."""
    with PrepareProgress() as progress:
        count_fetched(progress)
        yield from _checked_rows(job, progress, refused)


def _checked_rows(
    job: Mapping[str, Any], progress: PrepareProgress, refused: Callable[[str, int, str], None]
) -> Iterator[tuple[str, DatasetRow]]:
    for source in job["sources"]:
        first, *second = source["splits"]
        rule = rule_of(job["rule"], tuple(dict.fromkeys(source["columns"].values())))
        for number, read in enumerate(renamed_rows(source)):
            progress.count()
            row = {name: from_sharegpt(value) for name, value in read.items()} if job["sharegpt"] else read
            if fault := rule(row):
                refused(first, number, fault)
            else:
                yield (second[0] if second and held_out(row, source["share"]) else first), row


class SplitCounter:
    """The counts of a split, and the type of its columns."""

    def __init__(self) -> None:
        self.rows = self.bytes = 0
        self.schema: Any = None
        self._batch: list[DatasetRow] = []

    def add(self, row: DatasetRow) -> None:
        self.rows += 1
        self._batch.append(row)
        if len(self._batch) >= BATCH:
            self.flush()

    def flush(self) -> None:
        import pyarrow as pa  # type: ignore[import-not-found]

        table = pa.Table.from_pylist(self._batch)
        schemas = [schema for schema in (self.schema, table.schema if self._batch else None) if schema]
        self.schema = pa.unify_schemas(schemas, promote_options="permissive") if schemas else None
        self.bytes += table.nbytes
        self._batch = []


def count(job: Mapping[str, Any]) -> DatasetRow:
    """Return rows, bytes and type of each split, and which rows are refused."""
    splits = {name: SplitCounter() for source in job["sources"] for name in source["splits"]}
    faults: dict[str, list[Any]] = {name: [] for name in splits}
    counts = dict.fromkeys(splits, 0)

    def refused(split: str, number: int, fault: str) -> None:
        counts[split] += 1
        if len(faults[split]) < SHOWN:
            faults[split].append({"row": number, "fault": fault})

    for split, row in rows_to_keep(job, refused):
        splits[split].add(row)
    for counter in splits.values():
        counter.flush()
    return {
        name: {
            "rows": counter.rows,
            "bytes": counter.bytes,
            "refused": counts[name],
            "faults": faults[name],
            "schema": base64.b64encode(counter.schema.serialize().to_pybytes()).decode() if counter.schema else "",
        }
        for name, counter in splits.items()
    }


class ParquetFile:
    def __init__(self, path: Path, schema: Any) -> None:
        import pyarrow.parquet as pq  # type: ignore[import-not-found]

        self._schema, self._rows = schema, []  # type: tuple[Any, list[DatasetRow]]
        self._writer = pq.ParquetWriter(path, schema)

    def add(self, row: DatasetRow) -> None:
        self._rows.append(row)
        if len(self._rows) >= BATCH:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []


class ArrayRecordFile:
    """A file of rows, each a tf.train.Example of texts, as MaxText parses it (input_pipeline_utils.py
    ParseFeatures).
    """

    def __init__(self, path: Path, _schema: Any) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter  # type: ignore[import-not-found]

        self._writer = ArrayRecordWriter(str(path), "group_size:1")  # each row is read separately, in any order

    def add(self, row: DatasetRow) -> None:
        from maxtext.input_pipeline.protos import example_pb2  # type: ignore[import-not-found]

        example = example_pb2.Example()
        for column, text in row.items():
            example.features.feature[column].bytes_list.value.append(text.encode())
        self._writer.write(example.SerializeToString())

    def close(self) -> None:
        self._writer.close()


FILES: Mapping[str, Callable[[Path, Any], Any]] = {"parquet": ParquetFile, "arrayrecord": ArrayRecordFile}


class Shards:
    """A writer of a split's rows into its shards, one after the other; their sizes differ by at most one row."""

    def __init__(self, *, folder: Path, split: str, rows: int, shards: int, format: str, schema: str) -> None:
        self._folder, self._split, self._format = folder, split, format
        self._rows, self._shards, self._schema = rows, shards, _schema(schema)
        self._number = self._in_shard = self.written = 0
        self._file: Any = None

    def add(self, row: DatasetRow) -> None:
        self._file = self._file or FILES[self._format](self._path, self._schema)
        self._file.add(row)
        self._in_shard += 1
        self.written += 1
        if self.written == (self._number + 1) * self._rows // self._shards:
            self._finish()

    @property
    def whole(self) -> bool:
        return self.written == self._rows

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._split}-{self._number:05d}-of-{self._shards:05d}.{self._format}"

    def _finish(self) -> None:
        self._file.close()
        with self._path.open("rb+") as file:
            os.fsync(file.fileno())  # the caller records the digest: the bytes must be on the disk
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = self._path.stat().st_size
        tell(
            {
                "shard": {
                    "split": self._split,
                    "name": self._path.name,
                    "rows": self._in_shard,
                    "bytes": size,
                    "sha256": digest,
                }
            }
        )
        self._number += 1
        self._in_shard = 0
        self._file = None


def _schema(text: str) -> Any:
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def write_shards(job: Mapping[str, Any]) -> DatasetRow:
    """Return the number of rows written, by split; each finished shard is reported on stdout."""
    folder = Path(job["folder"])
    splits = {
        name: Shards(folder=folder, split=name, format=job["format"], **shards) for name, shards in job["out"].items()
    }
    for split, row in rows_to_keep(job, lambda *_: None):
        splits[split].add(row)
    if short := [name for name, shards in splits.items() if not shards.whole]:
        raise ValueError(f"{', '.join(short)}: other rows than were counted before")
    return {}


def resolve(job: Mapping[str, Any]) -> DatasetRow:
    """Return the hub's commit of each source that is a data set there."""
    from huggingface_hub import HfApi

    return {"commits": [HfApi().dataset_info(path).sha for path in job["paths"]]}


def answer(job: Mapping[str, Any]) -> DatasetRow:
    try:
        match job["action"]:
            case "resolve":
                return resolve(job)
            case "count":
                return count(job)
            case action:
                assert action == "write", action
                return write_shards(job)
    except MissingColumns as missing:
        (fault,) = missing.args
        return {"missing": fault.why}


if __name__ == "__main__":
    answer_question(answer)
