"""Documents about the training data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xsft.commands.interface_base import Document, Problem


class DataPart(Document):
    """Tokens in a row that are treated alike."""

    part: Literal["masked", "trained", "padding"]
    """`trained`: their prediction counts in the loss."""
    text: str
    ids: list[int]


class DataExample(Document):
    """One sequence as the model sees it."""

    row: int
    """From 0, in the order of the data; with --packed the packed sequence."""
    tokens: int
    """Without padding."""
    trained: int
    padding: int
    parts: list[DataPart]


class DataLengths(Document):
    """Tokens of an example before it is cut."""

    p50: int
    p90: int
    max: int
    at_least: bool
    """Looking stopped at `max`: the longest example has as many tokens or more."""


class DataSummary(Document):
    """What a sample says about the data."""

    rows: int | None
    """Of the whole split; null where only a sample was read and the workload does not say."""
    sampled: int
    tokens: DataLengths | None
    truncated: float
    """Share of examples that are longer than max_target_length, 0 to 1."""
    no_target: float
    """Share without a trained token."""
    trained: float
    """Share of trained tokens among those that are read."""
    duplicates: int
    """Examples whose trained tokens are those of another one of the sample."""
    packing: float | None
    """Share of positions of packed sequences that are tokens; null where the run does not pack."""
    steps_per_epoch: float | None
    """null where the number of rows is unknown."""
    histogram: list[tuple[int, int]]
    """[upper bound of the length, examples]."""


class DataDocument(Document):
    """`xsft data show|inspect FILE --json`."""

    schema_: Literal["xsft.data/1"] = Field(alias="schema")
    action: Literal["show", "inspect"]
    examples: list[DataExample] | None
    """null of `inspect`."""
    summary: DataSummary | None
    """null of `show`."""
    problems: list[Problem]
