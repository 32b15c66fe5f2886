"""Reads the first rows of files as JSON. Runs as a program in MaxText's environment.

The question (`workers.answering`) is `{"format", "rows", "bytes", "files"}`. `format`: parquet, arrayrecord, or a
loader of datasets; `bytes`: at the beginning of a file whose rest is a hole or missing, except the footer of parquet
files and array records; 0 for whole files. The answer has an object a file: `{"rows": [...], "counted": n}` (null:
there are more rows), with `"group": bytes` if the first row group is too large to read, or `{"error": "…"}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from xsft.workers.answering import answer_question

MAX_BYTES = 128 * 2**20
"""Maximum bytes of a file's first row group, decompressed; a larger one is not read."""


def answer(question: dict[str, Any]) -> list[dict[str, Any]]:
    return [rows_or_error(file, question) for file in question["files"]]


def rows_or_error(file: str, question: dict[str, Any]) -> dict[str, Any]:
    try:
        rows = first_rows(question["format"], file, question["rows"], question["bytes"])
    except Exception as failed:
        return {"error": f"{type(failed).__name__}: {failed}"}
    as_json: dict[str, Any] = json.loads(json.dumps(rows, default=str))
    return as_json


def first_rows(form: str, file: str, most: int, there: int) -> dict[str, Any]:
    match form:
        case "parquet":
            return read_parquet(file, most, there)
        case "arrayrecord":
            return read_array_record(file, most, there)
        case _:
            return read_dataset(form, file, most, there)


def read_parquet(file: str, most: int, there: int) -> dict[str, Any]:
    import pyarrow as pa  # type: ignore[import-not-found]
    from pyarrow import parquet

    opened = parquet.ParquetFile(file)
    large = [field.name for field in opened.schema_arrow if pa.types.is_large_list(field.type)]
    found = {"rows": [], "counted": opened.metadata.num_rows, "large": large}
    if not opened.num_row_groups:
        return found
    group = opened.metadata.row_group(0)
    size = group.total_byte_size
    if size > MAX_BYTES or (there and end_of(group) > there):
        return {**found, "group": size}
    batches = opened.iter_batches(batch_size=most, row_groups=[0])
    return {**found, "rows": next((batch.to_pylist() for batch in batches), [])}


def end_of(group: Any) -> int:
    """Return the position in the file after the last column of a row group."""
    columns = (group.column(number) for number in range(group.num_columns))
    return max((starts_of(column) + column.total_compressed_size for column in columns), default=0)


def starts_of(column: Any) -> int:
    return int(column.dictionary_page_offset or column.data_page_offset)


def read_array_record(file: str, most: int, there: int) -> dict[str, Any]:
    """Read the first text of each column, as maxtext@0.2.5 input_pipeline/input_pipeline_utils.py [ParseFeatures,
    NormalizeFeatures] does.
    """
    from array_record.python.array_record_module import ArrayRecordReader  # type: ignore[import-not-found]
    from maxtext.input_pipeline.protos import example_pb2  # type: ignore[import-not-found]

    opened = ArrayRecordReader(file)
    count = opened.num_records()
    records = (opened.read([number])[0] for number in range(min(count, most)))
    parsed = (example_pb2.Example.FromString(record).features.feature for record in records)
    rows = ({name: value_of(feature) for name, feature in features.items()} for features in parsed)
    return {"rows": readable(rows, there), "counted": count}


def value_of(feature: Any) -> Any:
    """Return the text, or the numbers, which MaxText refuses."""
    texts = feature.bytes_list.value
    return texts[0].decode() if texts else [*feature.int64_list.value, *feature.float_list.value]


def read_dataset(form: str, file: str, most: int, there: int) -> dict[str, Any]:
    """Read rows as maxtext@0.2.5 input_pipeline/hf_data_processing.py [make_hf_train_iterator] does; datasets
    decompresses files."""
    import datasets  # type: ignore[import-not-found]

    read = datasets.load_dataset(form, data_files=[file], split="train", streaming=True)
    rows = readable(islice(read, most + 1), there)
    return {"rows": rows[:most], "counted": len(rows) if len(rows) <= most else None}


def readable(rows: Iterable[dict[str, Any]], there: int) -> list[dict[str, Any]]:
    """Return the rows; of a file that is not whole, those before the first that cannot be read."""
    found: list[dict[str, Any]] = []
    try:
        found.extend(rows)
    except Exception:
        if not (there and found):
            raise
    return found


if __name__ == "__main__":
    answer_question(answer)
