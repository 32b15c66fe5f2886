"""The verdict on a step, from its own compilation or from one that differs only in its length. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Invalid, Marginal


class KnownStep(Struct, frozen=True, kw_only=True):
    """A kept verdict that holds for a step."""

    entry: CompiledStep
    derived: bool
    """Whether the compiled step has another length."""


def known_step(entries: Sequence[CompiledStep], *, tokens: int) -> KnownStep | None:
    """Return the entry of this length, else the nearest from which the verdict follows; None if none does.

    `entries` are of one family: same keys, same attention blocks.
    """
    telling = [entry for entry in entries if _holds_at_length(entry, tokens)]
    entry = min(telling, key=lambda one: abs(one.tokens - tokens), default=None)
    return KnownStep(entry=entry, derived=entry.tokens != tokens) if entry else None


def _holds_at_length(entry: CompiledStep, tokens: int) -> bool:
    """Return whether the verdict holds at this length: a run that fits also fits with fewer tokens, and the reverse."""
    match entry.verdict:
        case Fits():
            return tokens <= entry.tokens
        case DoesNotFit():
            return tokens >= entry.tokens
        case Marginal() | Invalid():
            return tokens == entry.tokens
