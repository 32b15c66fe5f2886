"""The facts that planning needs. Gathered by `xsft.effects.facts.gather`, used by pure code only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from xsft.conversion.record import ConversionRecord
    from xsft.dataset.kinds import RetypedColumn
    from xsft.fit.derive import KnownStep
    from xsft.problems import Problem
    from xsft.records.model import MeasuredPace
    from xsft.spec.place import Place


class SavedArray(Struct, frozen=True, kw_only=True):
    """One array of a checkpoint, as its small files describe it."""

    path: tuple[str, ...]
    """Path in the saved tree, e.g. `("params", "params", "decoder", "layers", "mlp", "wo", "kernel")`."""
    piece: tuple[int, ...] | None = None
    """Shape of one written piece; None if no file gives it."""
    ways: tuple[int, ...] | None = None
    """Number of parts into which each axis was split over the devices; None if no file gives it."""
    copies: int = 1
    """Devices that held the same part; Orbax may have written a share of it as a separate piece for each of them."""
    shape: tuple[int, ...] | None = None
    """Shape of the whole array, by its own `.zarray` or `zarr.json`; None if that was not read."""
    dtype: str | None = None
    """Data type by NumPy's name, from the same file."""


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """Facts of an initial checkpoint, from its files."""

    path: str
    status: Literal["read", "torn", "unreadable", "missing", "not-a-checkpoint"]
    """`torn`: a save that did not end. `missing`: the path does not exist. `not-a-checkpoint`: a path without
    `_METADATA`. `unreadable`: it could not be read."""
    detail: str = ""
    """Why it could not be read, or what the path holds instead."""
    near: str | None = None
    """Path of a checkpoint nearby, if there is none here."""
    is_hugging_face: bool = False
    """Whether the path holds Hugging Face weights instead."""
    use_ocdbt: bool | None = None
    use_zarr3: bool | None = None
    scan_layers: bool | None = None
    scan_recorded: bool = False
    """Whether the checkpoint itself records scan_layers, which MaxText adopts; False: inferred from the names of its
    parameters."""
    param_scan_axis: int | None = None
    """Position of the stacked layers in a scanned weight, inferred from the shapes; None if unknown."""
    arrays: tuple[SavedArray, ...] = ()
    """Its arrays; empty if its tree was not read."""
    dtypes_detail: str = ""
    """Why the dtypes of its arrays are unknown, or the number of arrays that were read."""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Return the data types of the arrays whose own file was read."""
        return tuple(sorted({array.dtype for array in self.arrays if array.dtype is not None}))


class SourceFacts(Struct, frozen=True, kw_only=True):
    """Facts of the Hugging Face weights of `model.hf`: from a folder of this machine, or the hub's answer."""

    content: str | None = None
    """sha256 over a folder's files, 64 hex digits; None for a repository, or if it could not be read."""
    commit: str | None = None
    """Commit to which the hub resolved a repository's revision, 40 hex digits; None if it was not asked."""
    quantized: str = ""
    """Evidence that the weights are block-quantised; empty if there is none."""
    weights_bytes: int | None = None
    """Bytes of all safetensors files; None if unknown."""
    vocabulary: int | None = None
    """Rows of the embedding; None if unknown."""
    fields: Mapping[str, float] = field(default_factory=dict)
    """Numbers and switches that config.json gives for the language model; empty if it was not read."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot be converted."""
    unanswered: str = ""
    """Why the hub was not asked, or did not answer."""


class TriesFacts(Struct, frozen=True, kw_only=True):
    """The folders of a conversion's attempts."""

    taken: frozenset[str] = frozenset()
    """Folders that are not empty."""
    broken: tuple[str, ...] = ()
    """Folders without a complete checkpoint, in the order of their numbers."""
    recorded: ConversionRecord | None = None
    """Record of the complete one."""


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


class TemplateFacts(Struct, frozen=True, kw_only=True):
    """The file that `data.chat_template` names, as it was when the workload was read."""

    text: str = ""
    problem: Problem | None = None
    """Why there is no text."""


KeyRule = Literal["alike", "told", "cast"]


class SampledRow(Struct, frozen=True, kw_only=True):
    """One row of a file of data."""

    at: str
    """Position of the row, for messages: file and row, or file and byte."""
    row: Any
    keys: KeyRule = "alike"
    """How datasets treats the keys of its messages: they must be equal in such rows, types are inferred from such rows,
    or the row is cast to these types."""


class DataFacts(Struct, frozen=True, kw_only=True):
    """Rows of the data's files on this machine."""

    rows: tuple[SampledRow, ...] = ()
    """The first ones of each file, and some of the rest."""
    counted: int | None = None
    """Number of all rows; None if not all were read."""
    files: int | None = None
    """Number of files; None if they were not listed."""
    digest: str = ""
    """Digest of the files' sizes and of the parts that were read."""
    content: str = ""
    """Digest of the sizes and checksums of all files, also in buckets; empty if unknown."""
    empty: tuple[str, ...] = ()
    """Files without a byte."""
    clash: RetypedColumn | None = None
    """The first column whose later JSON rows do not fit the type inferred from the first rows."""
    large: tuple[str, ...] = ()
    """Columns of Arrow's large lists, by the first parquet file."""
    problem: Problem | None = None
    """Why there are no rows, or what is wrong with a file."""


RoundTokens = tuple[int, int]
"""Tokens of the prompt and of the answer of one round."""


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


class ImageFacts(Struct, frozen=True, kw_only=True):
    """Facts of images/ about the image that a workload names."""

    name: str
    repository: str | None = None
    """Its repository, without digest; None if neither place nor lock names a registry."""
    digest: str | None = None
    """Digest that was last pushed there; None: never pushed."""
    maxtext: str | None = None
    """MaxText release in the pushed image."""
    evaluate: str | None = None
    """sha256 of the evaluation program in the pushed image; None: it has none."""
    stale: bool | None = None
    """Whether the current files of images/ would make another image; None if unknown."""
    pushed_to: tuple[str, ...] = ()
    """Every repository in its lock."""
    there: bool = True
    """Whether images/ has such a folder, or a lock."""
    others: tuple[str, ...] = ()
    """The folders that images/ has."""
    lock_problem: str = ""
    """Why the lock could not be read."""

    @property
    def ref(self) -> str | None:
        return f"{self.repository}@{self.digest}" if self.repository and self.digest else None


class Facts(Struct, frozen=True, kw_only=True):
    today: str = "19700101"
    """Date, UTC, YYYYMMDD."""
    commit: str | None = None
    """git commit of the working directory, 40 hex digits."""
    working_directory: str = "."
    """Absolute path of the folder in which a local run starts; its relative paths count from there."""
    places: Mapping[str, Place] = field(default_factory=dict)
    places_file: str | None = None
    places_folders: tuple[str, ...] = ()
    """Folders in which places.yaml was searched, in this order."""
    checkpoint: CheckpointFacts | None = None
    adapters: CheckpointFacts | None = None
    """Facts of the checkpoint at `lora.restore_path`; None if it was not read."""
    tries: TriesFacts | None = None
    """Facts of the conversion that `model.hf` asks for; None if they were not read."""
    source: SourceFacts | None = None
    """Facts of the weights that `model.hf` names; None if it names none, or they were not read."""
    tokenizer: TokenizerFacts | None = None
    """Facts of the tokenizer that MaxText will load; None if its files are not on this machine."""
    tokenizer_problem: Problem | None = None
    """Why the tokenizer's folder on this machine cannot be loaded."""
    image: ImageFacts | None = None
    """Facts of the image that the workload names; None if it names none."""
    template: TemplateFacts | None = None
    """Content of the template file; None if the workload names none."""
    data: DataFacts | None = None
    """Facts of the training data; None unless it is in files of rows on this machine."""
    eval_data: DataFacts | None = None
    hub_data: HubDataFacts | None = None
    """Facts of a data set on the hub; None for other data, and for data sets of the catalogue."""
    tokenized: tuple[tuple[RoundTokens, ...], ...] = ()
    """Rounds of sampled rows, before they are cut; empty if they were not tokenised."""
    eval_tokenized: tuple[tuple[RoundTokens, ...], ...] = ()
    """The same of the rows for evaluation."""
    no_counter: bool = False
    """Whether the sampled rows were not tokenised because MaxText's environment is not built."""
    counted: CountedData | None = None
    """Counts of `xsft data inspect`; None without any."""
    fit: KnownStep | None = None
    """The verdict of `xsft fit` on this run's step, or on one of another length; None without one."""
    paces: tuple[MeasuredPace, ...] = ()
    """Paces of runs of this model on this TPU type that were submitted from this machine and have a receipt."""
    memory_gib: float = 0.0
    """Total memory of this machine in GiB, for `target: local`; 0 if it was not read."""
    taken: tuple[str, ...] = ()
    """Run names of this workload's stages that a training in the same output already has."""
    taken_unread: str = ""
    """Why that could not be read."""
    attempt: int = 1
    """Number of the planned attempt: 1 unless earlier attempts failed."""
