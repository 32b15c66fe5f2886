"""Reads the first rows of parquet files as JSON. Runs as a program in MaxText's environment, which has pyarrow.

usage: parquet_worker.py ROWS FILE…. Prints one JSON object a file: `{"rows": [...], "counted": n}` or `{"error": "…"}`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa  # type: ignore[import-not-found]
from pyarrow import parquet

MAX_BYTES = 8 * 2**20
"""Maximum bytes of a file's row group in memory; a larger one is not read."""


def main(most: int, files: list[str]) -> None:
    for file in files:
        sys.stdout.write(f"{json.dumps(read(file, most), default=str)}\n")


def read(file: str, most: int) -> dict[str, Any]:
    try:
        opened = parquet.ParquetFile(file)
        small = opened.num_row_groups and opened.metadata.row_group(0).total_byte_size <= MAX_BYTES
        batches = opened.iter_batches(batch_size=most, row_groups=[0]) if small else ()
        rows: list[Any] = next((batch.to_pylist() for batch in batches), [])
    except Exception as failed:  # noqa: BLE001 - whatever pyarrow says is the answer
        return {"error": f"{type(failed).__name__}: {failed}"}
    large = [field.name for field in opened.schema_arrow if pa.types.is_large_list(field.type)]
    return {"rows": rows, "counted": opened.metadata.num_rows, "large": large}


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
