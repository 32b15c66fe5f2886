"""A sequence of tokens as the trainer gets it: which are read, which are trained, what pads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal

from msgspec import Struct, field

Part = Literal["masked", "trained"]
TokenKind = Literal["BOS", "EOS", "pad", "unknown", "special"]
"""Of a token that no text is split into. One that is two of them has the first name."""


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What the tokenizer says of the tokens that were read."""

    texts: Mapping[int, bytes] = field(default_factory=dict)
    """Bytes: a token may hold half a character."""
    kinds: Mapping[int, TokenKind] = field(default_factory=dict)
    named: Mapping[TokenKind, str] = field(default_factory=dict)
    """The text of its BOS, EOS, pad and unknown token, where it has one."""
    rows: int | None = None
    """Of the model's embedding; None where MaxText was not asked."""

    def text(self, ids: Iterable[int]) -> str:
        return b"".join(self.texts.get(token, b"") for token in ids).decode("utf-8", "replace")


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

    def end(self, vocabulary: Vocabulary) -> int | None:
        """The special token that is trained last, behind the text of the answer; None where there is none."""
        spoken = (token for token in reversed(self.target_text) if vocabulary.text((token,)).strip())
        last = next(spoken, None)
        return last if last in vocabulary.kinds else None


class Piece(Struct, frozen=True, kw_only=True):
    """Tokens in a row that are treated alike and are of one example."""

    part: Part
    segment: int
    """Number of the example within a packed sequence."""
    text: str
    ids: tuple[int, ...]


def pieces(sequence: TokenSequence, vocabulary: Vocabulary) -> tuple[Piece, ...]:
    segments = (*sequence.segments, *sequence.segments[-1:])
    numbered = zip(sequence.tokens, segments, strict=False)
    runs = groupby(numbered, key=lambda one: (one[0][1], one[1]))
    return tuple(_piece(part, segment, [token for (token, _), _ in run], vocabulary) for (part, segment), run in runs)


def _piece(part: Part, segment: int, ids: Iterable[int], vocabulary: Vocabulary) -> Piece:
    kept = tuple(ids)
    return Piece(part=part, segment=segment, text=vocabulary.text(kept), ids=kept)


def spans(piece: Piece, vocabulary: Vocabulary) -> Iterator[tuple[str, TokenKind | None]]:
    """The text of the piece, every special token by itself and with its kind."""
    for (kind, _alone), run in groupby(enumerate(piece.ids), key=lambda one: _span(one, vocabulary)):
        yield vocabulary.text(token for _at, token in run), kind


def _span(numbered: tuple[int, int], vocabulary: Vocabulary) -> tuple[TokenKind | None, int]:
    at, token = numbered
    kind = vocabulary.kinds.get(token)
    return kind, at if kind else -1
