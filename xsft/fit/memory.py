"""Answers whether this machine has the memory for a compilation now. Pure.

source: measured, aot_fit.md §0 and §2: dense models up to 405 billion parameters take 2 to 3.9 GiB, deepseek3-671b 4
to 7.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

DENSE_GIB = 4.0
LARGE_GIB = 7.0
LARGE_FROM_B = 500.0


class StartNow(Struct, frozen=True, kw_only=True):
    """The compilation fits into the free memory."""


class WaitForOthers(Struct, frozen=True, kw_only=True):
    """Other compilations hold the memory that it needs."""

    reason: str


class TooLittleMemory(Struct, frozen=True, kw_only=True):
    """The machine has too little free memory, and no compilation will give any back."""

    reason: str


Admission = StartNow | WaitForOthers | TooLittleMemory


def needed_gib(*, params_b: float | None) -> float:
    """Return the GiB that a compilation takes at most; `params_b`: billions of parameters, None if unknown."""
    return LARGE_GIB if params_b is not None and params_b >= LARGE_FROM_B else DENSE_GIB


def admission(*, free_gib: float, needed: float, others: Sequence[float]) -> Admission:
    """Return whether to start. `others`: GiB reserved by running compilations, which may not hold them yet."""
    if free_gib - sum(others) >= needed:
        return StartNow()
    if others:
        held = f"{len(others)} other compilation{'s' if len(others) > 1 else ''} may take {sum(others):g} GiB"
        return WaitForOthers(reason=f"{free_gib:.1f} GiB of memory free, {needed:g} needed, and {held}")
    return TooLittleMemory(reason=f"{free_gib:.1f} GiB of memory free, {needed:g} needed")
