"""The facts by which a workload is resolved: its place, image, checkpoint, weights and template. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from xsft.base.problems import Problem
from xsft.spec.conversion_inputs import ConversionRecord
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
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of config.json about the language model (`catalog.hf_config.source_fields`); empty if it was not read."""
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


class TemplateFacts(Struct, frozen=True, kw_only=True):
    """The file that `data.chat_template` names, as it was when the workload was read."""

    text: str = ""
    problem: Problem | None = None
    """Why there is no text."""


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


class ResolutionFacts(Struct, frozen=True, kw_only=True):
    """What a workload's defaults, place and paths depend on."""

    today: str = "19700101"
    """Date, UTC, YYYYMMDD."""
    commit: str | None = None
    """git commit of the working directory, 40 hex digits."""
    working_directory: str = "."
    """Absolute path of the current folder."""
    folder: str = "."
    """Absolute path of the workload's folder, from which the relative paths in it start."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Relative paths of a workload for this machine -> the absolute ones."""
    places: Mapping[str, Place] = field(default_factory=dict)
    places_file: str | None = None
    places_folders: tuple[str, ...] = ()
    """Folders in which places.yaml was searched, in this order."""
    checkpoint: CheckpointFacts | None = None
    tries: TriesFacts | None = None
    """Facts of the conversion that `model.hf` asks for; None if they were not read."""
    source: SourceFacts | None = None
    """Facts of the weights that `model.hf` names; None if it names none, or they were not read."""
    image: ImageFacts | None = None
    """Facts of the image that the workload names; None if it names none."""
    template: TemplateFacts | None = None
    """Content of the template file; None if the workload names none."""
    hub_commits: Mapping[str, str] = field(default_factory=dict)
    """Commits, 40 hex digits, that the hub has now of the `tokenizer` and of the `data`; those that were not asked for
    or not answered, or that the workload names itself, are absent."""
    attempt: int = 1
    """Number of the planned attempt: 1 unless earlier attempts failed."""
