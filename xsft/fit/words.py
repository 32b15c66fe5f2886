"""The type of the reason why a step cannot be built. Pure."""

from __future__ import annotations

from msgspec import Struct


class InvalidStep(Struct, frozen=True, kw_only=True):
    """The reason why a step cannot be built, in the workload's words."""

    where: str
    """Key path in the workload; empty if the whole file is meant."""
    message: str
    fix: str
    said: str = ""
    """The first line of the error of MaxText or JAX."""
