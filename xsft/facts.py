"""What planning must know from the world. Gathered by `xsft.effects.gather`, used by pure code only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    from xsft.spec.place import Place


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """What the files beside an initial checkpoint say."""

    path: str
    status: Literal["read", "unreadable", "missing", "not-a-checkpoint"]
    """`missing`: nothing is there. `not-a-checkpoint`: something is, without `_METADATA`. `unreadable`: could not
    look.
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
    image: ImageFacts | None = None
    """Of the image that the workload names; None where it names none."""
    machine: MachineFacts = MachineFacts()
    attempt: int = 1
    """Which JobSet of this run is planned: 1 unless earlier attempts failed."""
