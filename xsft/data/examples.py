"""A sequence of tokens as the trainer gets it: tokens read, tokens trained, padding. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Literal

from msgspec import Struct, field

TokenRole = Literal["masked", "trained"]
TokenKind = Literal["BOS", "EOS", "pad", "unknown", "special"]
"""Kind of a token that ordinary text never contains. A token of two kinds has the first."""


class Vocabulary(Struct, frozen=True, kw_only=True):
    """The tokenizer's facts about the tokens that were read."""

    texts: Mapping[int, bytes] = field(default_factory=dict)
    """Text of each token as bytes, because a token may be part of a character."""
    kinds: Mapping[int, TokenKind] = field(default_factory=dict)
    named: Mapping[TokenKind, str] = field(default_factory=dict)
    """Text of its BOS, EOS, pad and unknown token, if it has one."""
    rows: int | None = None
    """Rows of the model's embedding; None if unknown."""

    def text(self, ids: Iterable[int]) -> str:
        return b"".join(self.texts.get(token, b"") for token in ids).decode("utf-8", "replace")


class TokenSequence(Struct, frozen=True, kw_only=True):
    """One row of a batch. Position i has the token read there and the target predicted from it."""

    inputs: tuple[int, ...]
    """Token ids, without padding."""
    trained: tuple[bool, ...]
    """Same length: whether the target at this position, the next token, counts in the loss."""
    segments: tuple[int, ...]
    """Same length: number of the example within a packed sequence, from 1."""
    padding: int
    """Number of padding positions at the end. If the pad token also ends an answer, one of them may be that end:
    MaxText trains neither.
    """
    last: int | None = None
    """The target of the last position if it is trained, which means that the sequence was truncated."""

    @property
    def length(self) -> int:
        """Number of positions without padding."""
        return len(self.inputs)

    @property
    def trained_tokens(self) -> int:
        return sum(self.trained)

    @property
    def tokens(self) -> Iterator[tuple[int, TokenRole]]:
        """Yield every token with whether its prediction is trained; the first token is not predicted."""
        parts: tuple[TokenRole, ...] = tuple("trained" if is_trained else "masked" for is_trained in self.trained)
        yield from zip(self.inputs, ("masked", *parts), strict=False)
        if self.last is not None:
            yield self.last, "trained"

    @property
    def target_text(self) -> tuple[int, ...]:
        """Return the trained tokens in order: examples with equal trained tokens train the same."""
        return tuple(token for token, part in self.tokens if part == "trained")

    def end(self, vocabulary: Vocabulary) -> int | None:
        """Return the special token that is trained last, after the text of the answer, or None."""
        spoken = (token for token in reversed(self.target_text) if vocabulary.text((token,)).strip())
        last = next(spoken, None)
        return last if last in vocabulary.kinds else None


class SpecialToken(Struct, frozen=True, kw_only=True):
    """A special token; ordinary text never contains it."""

    at: int
    """Position in `ids`."""
    kind: TokenKind
    text: str


class Piece(Struct, frozen=True, kw_only=True):
    """Consecutive tokens of one example with the same treatment."""

    part: TokenRole
    """`trained`: their prediction counts in the loss."""
    segment: int
    """Number of the example within a packed sequence, from 1."""
    text: str
    ids: tuple[int, ...]
    special: tuple[SpecialToken, ...]


def pieces(sequence: TokenSequence, vocabulary: Vocabulary) -> tuple[Piece, ...]:
    segments = (*sequence.segments, *sequence.segments[-1:])
    all_pieces: list[Piece] = []
    numbered = ((part, segment, token) for (token, part), segment in zip(sequence.tokens, segments, strict=False))
    for (part, segment), run in groupby(numbered, key=itemgetter(0, 1)):
        ids = tuple(token for _part, _segment, token in run)
        special = tuple(
            SpecialToken(at=position, kind=vocabulary.kinds[token], text=vocabulary.text((token,)))
            for position, token in enumerate(ids)
            if token in vocabulary.kinds
        )
        all_pieces.append(Piece(part=part, segment=segment, text=vocabulary.text(ids), ids=ids, special=special))
    return tuple(all_pieces)


def spans(piece: Piece, vocabulary: Vocabulary) -> Iterator[tuple[str, TokenKind | None]]:
    """Yield the text of the piece; every special token separately, with its kind."""
    for kind, run in groupby(piece.ids, key=vocabulary.kinds.get):
        if kind is None:
            yield vocabulary.text(run), None
        else:
            yield from ((vocabulary.text((token,)), kind) for token in run)
