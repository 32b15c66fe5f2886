"""The verdict on a step, from its own compilation or from one that differs only in its length or its slice. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from msgspec import Struct

from xsft.catalog.fit import CompilerVerdict
from xsft.catalog.tpu import Slice
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits, Invalid, Marginal


class KnownStep(Struct, frozen=True, kw_only=True):
    """A kept verdict that holds for a step."""

    entry: CompiledStep
    derived: bool
    """Whether the compiled step has another length."""
    row: CompilerVerdict | None = None
    """The row of the catalogue; None if it was compiled on this machine."""


class NearStep(Struct, frozen=True, kw_only=True):
    """A compiled step that differs only in its slice, the number of slices or its length."""

    entry: CompiledStep
    tpu: Slice
    num_slices: int
    same_mesh: bool = True
    """False: it has the default mesh, and the run another."""

    @property
    def place(self) -> str:
        return f"{self.tpu.xpk_type} × {self.num_slices}"

    def distance(self, tpu: Slice, num_slices: int, tokens: int) -> float:
        """Return how far it is from a step, in doublings of chips and of tokens."""
        chips = self.tpu.chips * self.num_slices / (tpu.chips * num_slices)
        return abs(log2(chips)) + abs(log2(self.entry.tokens / max(1, tokens)))

    def implies_fit(self, tpu: Slice, num_slices: int, tokens: int) -> bool:
        """Return whether a step of this size should fit, because this one does: with at least its chips in a slice,
        and no more tokens on each. Slices beside one another change it by a few hundredths."""
        splits = self.tpu.chips <= tpu.chips and self.num_slices <= num_slices
        return self.same_mesh and isinstance(self.entry.verdict, Fits) and splits and tokens <= self.entry.tokens


def known_step(entries: Sequence[CompiledStep], *, tokens: int) -> KnownStep | None:
    """Return the entry of this length, else the nearest from which the verdict follows; None if none does.

    `entries` are of one family: same keys, same attention blocks.
    """
    telling = [entry for entry in entries if _holds_at_length(entry, tokens)]
    entry = min(telling, key=lambda telling_entry: abs(telling_entry.tokens - tokens), default=None)
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
