"""The document about a prepared data set."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from xsft.commands.interface_base import Document, Problem
from xsft.dataset.preparing import Shard

Split = Literal["train", "eval"]


class PrepareDocument(Document, frozen=True, kw_only=True):
    """`xsft data prepare FILE --json`."""

    schema_: Literal["xsft.data-prepare/1"] = field(name="schema")
    to: str
    """Folder of the data set, which holds `prepared.json`."""
    found: bool
    """Whether it existed already: then nothing was written."""
    attempt: str
    """Folder of the shards, below `to`."""
    format: Literal["parquet", "arrayrecord"]
    columns: list[str]
    eval_columns: list[str]
    rows: dict[Split, int]
    refused: int
    """Rows that were left out because of --skip-bad."""
    shards: list[Shard]
    data: dict[str, Any]
    """The workload's `data` section that reads these files."""
    problems: list[Problem]
