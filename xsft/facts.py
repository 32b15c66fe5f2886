"""What planning must know from the world. Gathered by `xsft.effects.facts.gather`, used by pure code only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from xsft.problems import Problem
    from xsft.spec.place import Place


class SavedArray(Struct, frozen=True, kw_only=True):
    """One array of a checkpoint, by what its small files say."""

    path: tuple[str, ...]
    """Where it is in the saved tree, e.g. `("params", "params", "decoder", "layers", "mlp", "wo", "kernel")`."""
    piece: tuple[int, ...] | None = None
    """Shape of one written piece; None where no file says it."""
    ways: tuple[int, ...] | None = None
    """Into how many parts each axis was cut over the devices; None where no file says it."""
    copies: int = 1
    """Devices that held the same part. Orbax may have let each of them write a share of it as a piece of its own."""


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """What the files beside an initial checkpoint say."""

    path: str
    status: Literal["read", "torn", "unreadable", "missing", "not-a-checkpoint"]
    """`torn`: a save that did not end. `missing`: nothing is there. `not-a-checkpoint`: something is, without
    `_METADATA`. `unreadable`: could not look.
    """
    detail: str = ""
    """Why it could not be read, or what lies there instead."""
    use_ocdbt: bool | None = None
    use_zarr3: bool | None = None
    scan_layers: bool | None = None
    scan_recorded: bool = False
    """The checkpoint itself says scan_layers, which MaxText adopts; False: told from the names of its parameters."""
    param_scan_axis: int | None = None
    """Position of the stacked layers in a scanned weight, told from the shapes; None where it cannot be told."""
    arrays: tuple[SavedArray, ...] = ()
    """Empty where its tree was not read."""


class TokenizerFacts(Struct, frozen=True, kw_only=True):
    """What the files of a tokenizer on this machine say. A token is empty where there is none, None where unknown."""

    folder: str
    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None
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


class MachineFacts(Struct, frozen=True, kw_only=True):
    """This machine, for `target: local`."""

    memory_gib: float = 0.0
    """All of it; 0 where nobody looked."""


class ImageFacts(Struct, frozen=True, kw_only=True):
    """What images/ says about the image that a workload names."""

    name: str
    repository: str | None = None
    """Where it is, or would be, without digest; None where neither place nor lock names a registry."""
    digest: str | None = None
    """As it was last pushed there; None: never."""
    maxtext: str | None = None
    """The release in what was pushed."""
    stale: bool | None = None
    """What lies under images/ now would make another image; None where that cannot be told."""
    pushed_to: tuple[str, ...] = ()
    """Every repository in its lock."""
    there: bool = True
    """images/ has such a folder, or a lock."""
    others: tuple[str, ...] = ()
    """The folders that images/ has."""
    lock_problem: str = ""
    """Why the lock could not be read."""

    @property
    def ref(self) -> str | None:
        return f"{self.repository}@{self.digest}" if self.repository and self.digest else None


class Facts(Struct, frozen=True, kw_only=True):
    today: str = "19700101"
    """UTC date, YYYYMMDD."""
    commit: str | None = None
    """git commit of the working directory, 40 hex digits."""
    working_directory: str = "."
    """Absolute; where a run on this machine starts, and so where its relative paths do."""
    places: Mapping[str, Place] = field(default_factory=dict)
    places_file: str | None = None
    checkpoint: CheckpointFacts | None = None
    tokenizer: TokenizerFacts | None = None
    """Of the tokenizer that MaxText will load; None where its files are not on this machine."""
    image: ImageFacts | None = None
    """Of the image that the workload names; None where it names none."""
    template: TemplateFacts | None = None
    """None where the workload names none."""
    machine: MachineFacts = MachineFacts()
    attempt: int = 1
    """Which JobSet of this run is planned: 1 unless earlier attempts failed."""
