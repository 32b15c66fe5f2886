"""The documents of `xsft data`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from xsft.data.passes import Split
from xsft.data.preparation import Shard
from xsft.data.summary import Lengths, Role
from xsft.verbs.document import Document, ProblemFields


class SpecialToken(Document, frozen=True, kw_only=True):
    """A special token; ordinary text never contains it."""

    at: int
    """Position in `ids`."""
    kind: Literal["BOS", "EOS", "pad", "unknown", "special"]
    text: str


class DataPart(Document, frozen=True, kw_only=True):
    """Consecutive tokens of one example with the same treatment."""

    part: Literal["masked", "trained"]
    """`trained`: their prediction counts in the loss."""
    segment: int
    """Number of the example within a packed sequence, from 1."""
    text: str
    ids: list[int]
    special: list[SpecialToken]


class DataExample(Document, frozen=True, kw_only=True):
    """One sequence as the model reads it."""

    row: int
    """Row number from 0, in the order of the data; with --packed the number of the packed sequence."""
    tokens: int
    """Number of tokens, without padding."""
    trained: int
    padding: int
    cut: bool
    """Whether the example fills max_target_length, so that text may have been cut."""
    end: str | None
    """The last trained special token, after the answer; if null, the model does not learn to stop."""
    parts: list[DataPart]


class DataDocument(Document, frozen=True, kw_only=True):
    """`xsft data show|inspect FILE --json`. For `show`, all counts are null."""

    schema_: Literal["xsft.data/1"] = field(name="schema")
    action: Literal["show", "inspect"]
    split: Literal["train", "eval"]
    examples: list[DataExample] | None
    """The examples that are shown; null for `inspect`."""
    rows: int | None
    """Rows of the whole split; null if only a sample was read and the workload gives no number."""
    sampled: int | None
    """Number of rows that were read from the beginning of the split; other counts are for these rows, unless stated."""
    everything: bool | None
    """Whether the sample is the whole split."""
    tokens: Lengths | None
    truncated: float | None
    """Share of examples that are longer than max_target_length, 0 to 1."""
    no_target: float | None
    """Share of examples without a trained token."""
    no_end: float | None
    """Share of uncut examples whose last trained token is not a special token."""
    trained: float | None
    """Share of trained tokens among those that are read."""
    duplicates: int | None
    """Examples whose trained tokens equal those of an earlier example of the sample."""
    in_other: int | None
    """Examples whose trained tokens equal those of an example of the other split; null if the workload has no other
    split."""
    whole_in_other: int | None
    """Number of these examples that are completely equal."""
    other_sampled: int | None
    """Rows of the other split that were read."""
    roles: list[Role] | None
    packing: float | None
    """Share of positions of packed sequences that are tokens; null if the run does not pack."""
    packed_sequences: int | None
    """Number of packed sequences from which `packing` is computed."""
    steps_per_epoch: float | None
    """Steps of one pass over the data; null if the number of rows is unknown, estimated from the sample unless it is
    the whole split."""
    epochs: float | None
    """Passes over the data that train.steps needs."""
    histogram: list[tuple[int, int]] | None
    """[upper bound of the length, examples]."""
    beyond_vocabulary: int | None
    """Examples with a token for which the model has no row."""
    picture: str | None
    """Path of the file of --png."""
    problems: list[ProblemFields]


class PrepareDocument(Document, frozen=True, kw_only=True):
    """`xsft data prepare FILE --json`."""

    schema_: Literal["xsft.data-prepare/1"] = field(name="schema")
    to: str
    """Folder of the data set, with `prepared.json`."""
    found: bool
    """Whether the data set existed; if so, nothing was written."""
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
    problems: list[ProblemFields]
