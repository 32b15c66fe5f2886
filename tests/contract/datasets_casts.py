"""Runs in MaxText's environment: which values of a second file datasets casts to the type that the first file tells.

Reads pairs from stdin, a row of the first file and one of the second, and prints a list of booleans. Its files are in
the current folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import datasets


def is_cast(pair: list[Any]) -> bool:
    files = [Path(f"{number}.jsonl") for number in range(len(pair))]
    for file, row in zip(files, pair, strict=True):
        file.write_text(json.dumps(row) + "\n")
    try:
        return bool(
            list(datasets.load_dataset("json", data_files=list(map(str, files)), split="train", streaming=True))
        )
    except Exception:  # noqa: BLE001 - several kinds
        return False


if __name__ == "__main__":
    print(json.dumps([is_cast(pair) for pair in json.load(sys.stdin)]))
