"""The ways to drive JAX: one module per mode, each with the same constants (`XPK_VERB`, `TRAINER_KEYS`, …)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from xsft.base.names import MODES, ModeName
from xsft.spec import mcjax, pathways


class ModeModule(Protocol):
    """The constants and functions that each mode's module has."""

    XPK_VERB: str
    """The verb of `xpk workload` and of `xpk cluster`."""
    REPLICATED_JOB: str
    """Name of the replicated job that holds the slices."""
    TRAINER_JOB: str
    """Name of the replicated job whose container runs the trainer."""
    TRAINER_ENV: tuple[tuple[str, str], ...]
    RESERVED_ENV: frozenset[str]
    READS_OCDBT: bool
    """Whether it reads checkpoints with OCDBT or zarr v3."""

    @property
    def TRAINER_KEYS(self) -> Mapping[str, bool]: ...  # noqa: N802 - a constant of the module, read-only here


def mode_module(mode: ModeName) -> ModeModule:
    match mode:
        case "mcjax":
            return mcjax
        case "pathways":
            return pathways


def is_mode_key(key: str) -> bool:
    """Return whether a mode decides this key of the trainer."""
    return any(key in mode_module(mode).TRAINER_KEYS for mode in MODES)


def mode_reserving(variable: str) -> ModeName | None:
    """Return the mode that reserves this environment variable; None if no mode does."""
    return next((mode for mode in MODES if variable in mode_module(mode).RESERVED_ENV), None)
