"""The document about a prepared data set."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem

Split = Literal["train", "eval"]


class PreparedShard(Document):
    """One prepared file."""

    split: Split
    name: str
    rows: int
    bytes: int
    sha256: str


class PrepareDocument(Document):
    """`xsft data prepare FILE --json`."""

    schema_: Literal["xsft.data-prepare/1"] = Field(alias="schema")
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
    shards: list[PreparedShard]
    data: dict[str, Any]
    """The workload's `data` section that reads these files."""
    problems: list[Problem]
