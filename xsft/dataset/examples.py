"""A sequence of tokens as the trainer gets it: which are read, which are trained, what pads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal

from msgspec import Struct

Part = Literal["masked", "trained", "padding"]


class TokenSequence(Struct, frozen=True, kw_only=True):
    """One row of a batch. Position i holds the token read there and the target predicted from it."""

    inputs: tuple[int, ...]
    """Token ids; padding only in `padding`."""
    trained: tuple[bool, ...]
    """As long: whether the target at this position, the token after it, counts in the loss."""
    segments: tuple[int, ...]
    """As long: number of the example within a packed sequence, from 1."""
    padding: int
    """Positions at the end that hold the same token and are not trained. Where the pad token also ends an answer, one
    of them may be that end: MaxText trains neither.
    """
    last: int | None = None
    """The target of the last position, where it is trained: the sequence was cut there."""

    @property
    def length(self) -> int:
        """Positions that are not padding."""
        return len(self.inputs)

    @property
    def trained_tokens(self) -> int:
        return sum(self.trained)

    @property
    def tokens(self) -> Iterator[tuple[int, Part]]:
        """Every token that is read, and whether its prediction is trained; the first is predicted from nothing."""
        parts: tuple[Part, ...] = tuple("trained" if one else "masked" for one in self.trained)
        yield from zip(self.inputs, ("masked", *parts), strict=False)
        if self.last is not None:
            yield self.last, "trained"

    @property
    def target_text(self) -> tuple[int, ...]:
        """The tokens that are trained, in order: two examples with the same ones teach the same."""
        return tuple(token for token, part in self.tokens if part == "trained")


class Piece(Struct, frozen=True, kw_only=True):
    """Tokens in a row that are treated alike."""

    part: Part
    text: str
    ids: tuple[int, ...]


def pieces(sequence: TokenSequence, texts: Mapping[int, str]) -> tuple[Piece, ...]:
    """`texts`: of each token id."""
    found = [_piece(part, run, texts) for part, run in groupby(sequence.tokens, key=lambda token: token[1])]
    return tuple(found)


def _piece(part: Part, run: Iterable[tuple[int, Part]], texts: Mapping[int, str]) -> Piece:
    ids = tuple(token for token, _part in run)
    return Piece(part=part, text="".join(texts.get(token, "") for token in ids), ids=ids)
