"""Facts of the training data: its rows, its tokenizer, and the hub's answer on it. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from xsft.base.problems import Problem


class TokenizerFacts(Struct, frozen=True, kw_only=True):
    """Facts of a tokenizer's files on this machine. A token is empty if there is none, None if unknown."""

    folder: str
    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None
    vocabulary: int | None = None
    """The greatest id of a token, plus one; None if unknown."""
    special: tuple[str, ...] = ()
    """Tokens that no text is split into, in the order of their ids."""
    template: str | None = None
    """Its chat template."""
    missing: tuple[str, ...] = ()
    """Tokens that the workload names and the vocabulary lacks."""


class SampledRow(Struct, frozen=True, kw_only=True):
    """One row of a file of data."""

    at: str
    """Position of the row, for messages."""
    row: Any


class DataFacts(Struct, frozen=True, kw_only=True):
    """Files of rows, on this machine or in a bucket, as far as they are known without MaxText."""

    rows: tuple[SampledRow, ...] = ()
    """Those of the first megabyte, if the files are JSON lines."""
    counted: int | None = None
    """Number of all rows; None if unknown."""
    files: int | None = None
    """Number of files; None if they were not listed."""
    content: str = ""
    """Digest of the sizes and checksums of all files, also in buckets; empty if unknown."""
    empty: tuple[str, ...] = ()
    """Files without a byte."""
    problem: Problem | None = None
    """Why there are no rows, or what is wrong with a file."""


class HubDataFacts(Struct, frozen=True, kw_only=True):
    """The hub's answer on a data set, for the user's own login."""

    access: Literal["read", "gated", "unknown"] = "read"
    """`gated`: its terms are not accepted by this login. `unknown`: it does not exist, or is private."""
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By configuration; empty if the hub did not list them."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By configuration."""
    default: str | None = None
    """The configuration that the data set marks as its default."""
    script: str = ""
    """File of a program that loads the data; empty if there is none."""
    unanswered: str = ""
    """Why the hub was not asked, or did not answer."""


class CountedData(Struct, frozen=True, kw_only=True):
    """Findings of `xsft data inspect` in the same data, by MaxText's own pipeline."""

    problems: tuple[Problem, ...]
    rows: str
    """Description of the rows that were read."""
    on: str
    """Date, UTC, YYYYMMDD."""
