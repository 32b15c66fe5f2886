"""The ways to drive JAX: one module per mode, each with the same constants (`XPK_VERB`, `TRAINER_KEYS`, …)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from xsft.modes import mcjax, pathways
from xsft.naming import ModeName


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

    @property
    def TRAINER_KEYS(self) -> Mapping[str, bool]: ...  # noqa: N802 - a constant of the module, read-only here


def mode_module(mode: ModeName) -> ModeModule:
    match mode:
        case "mcjax":
            return mcjax
        case "pathways":
            return pathways
