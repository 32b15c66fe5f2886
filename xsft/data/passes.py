"""Requests to MaxText's pipeline, and its answers: rows, and the sequences of tokens that the trainer gets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Literal

from msgspec import Struct, field

from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of
from xsft.workers.row_shape import RowProblem

Split = Literal["train", "eval"]
SPLITS: tuple[Split, ...] = ("train", "eval")

SAMPLE = 2000
"""Number of rows to read unless all are requested."""
CHECKED = 400
"""Number of rows that `xsft check` asks about."""
PACKED = 64
"""Number of packed sequences whose padding is counted."""

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


class DataPass(Struct, frozen=True, kw_only=True):
    """One pass over the data from its start."""

    rows: int
    """Maximum number of sequences to read."""
    packing: bool
    split: Split = "train"


class GivenMessage(Struct, frozen=True, kw_only=True):
    """One message of a row, as MaxText's pipeline gets it before the template."""

    role: str
    text: str
    """As the tokenizer decodes it, if MaxText's texts hold only that."""
    kind: str
    """Python's type of the content: `str`, `NoneType`, `list`."""
    written: bool
    """Whether its text is in the template's output for the row."""
    unread: Mapping[str, str] = {}
    """Keys besides role and content that have a value, and without which MaxText makes the same texts."""

    @property
    def empty(self) -> bool:
        return not self.text.strip()


class GivenRow(Struct, frozen=True, kw_only=True):
    """One row as MaxText's pipeline gets it, and the texts that it makes of it."""

    fault: str
    """Why MaxText stops at the row, completing "the row …"; empty if it does not."""
    texts: tuple[str, ...]
    """Prompt and answer of each round in turn, before truncation."""
    messages: tuple[GivenMessage, ...]
    length: int = 0
    """Number of tokens before truncation."""

    @property
    def answers(self) -> Iterator[tuple[str, str]]:
        """Yield each answer of the row with the text that is trained for it."""
        answers = (message.text for message in self.messages if message.role == "assistant")
        yield from zip(answers, self.texts[1::2], strict=False)

    @property
    def content(self) -> tuple[tuple[str, str], ...]:
        """Return what makes two rows equal."""
        return tuple((message.role, message.text) for message in self.messages)


class FaultyRow(Struct, frozen=True, kw_only=True):
    """A row whose columns do not have the shape that MaxText needs."""

    row: int
    """Number of the row, from 0."""
    id: RowProblem
    fault: str
    """Completes "the row …"."""
    at: str = ""
    """Position in the files, for messages; empty if only its number is known."""


class PassRead(Struct, frozen=True, kw_only=True):
    rows: tuple[TokenSequence, ...] = ()
    given: tuple[GivenRow, ...] = ()
    """Each row, unless rows are packed; empty sequences stand for those with a fault."""
    ended: bool
    """Whether the data ended."""
    error: str = ""
    """The error that ended the pass; it is not of one row."""
    faults: tuple[FaultyRow, ...] = ()
    columns: Mapping[str, tuple[int, ...]] = {}
    """Columns that MaxText does not read -> the rows in which they have a value."""
    keys: tuple[tuple[str, ...], ...] = ()
    """The different sets of keys of messages."""

    @property
    def good(self) -> tuple[tuple[int, TokenSequence], ...]:
        """Return (row, sequence) of every row that MaxText can format."""
        bad = {row for row, given_row in enumerate(self.given) if given_row.fault}
        return tuple((row, sequence) for row, sequence in enumerate(self.rows) if row not in bad)


class PassAnswers(Struct, frozen=True, kw_only=True):
    passes: tuple[PassRead, ...]
    vocabulary: Vocabulary = Vocabulary()


class ReadSettings(Struct, frozen=True, kw_only=True):
    """The settings with which a run reads its data, as far as counting needs them."""

    limit: int
    """max_target_length."""
    packs: bool
    sequences_per_step: float
    steps: int
    epochs: int
    rows: int | None
    """Number of rows given in the workload, or None."""
    shuffles: bool = True


def reading_of(run: Run) -> ReadSettings:
    keys = trainer_of(run).trainer_keys(run)
    batch = float(str(keys.get("per_device_batch_size") or 1)) * run.devices
    return ReadSettings(
        limit=_integer_or(keys.get("max_target_length"), 2048),
        packs=str(keys.get("packing", True)).lower() == "true",
        sequences_per_step=batch * _integer_or(keys.get("gradient_accumulation_steps"), 1),
        steps=run.spec.train.steps,
        epochs=_integer_or(keys.get("num_epoch"), 1),
        rows=run.spec.data.rows,
        shuffles=str(keys.get("enable_data_shuffling", True)).lower() == "true",
    )


def _integer_or(value: Value, otherwise: int) -> int:
    return int(str(value)) if value is not None else otherwise


def evaluates(run: Run) -> bool:
    """Return whether the workload has evaluation data."""
    return bool(run.spec.data.hf_eval_split or run.spec.data.hf_eval_files)


def passes_to_inspect(run: Run, *, split: Split, rows: int) -> Iterator[DataPass]:
    """Yield the passes in the order that `InspectionResult` expects: examples and, of the training split, packed
    sequences and the examples of the other split.
    """
    yield DataPass(rows=rows, packing=False, split=split)
    if reading_of(run).packs:
        yield DataPass(rows=PACKED, packing=True, split=split)
    if evaluates(run):
        other: Split = "eval" if split == "train" else "train"
        yield DataPass(rows=rows, packing=False, split=other)


class InspectionResult(Struct, frozen=True, kw_only=True):
    """The answers to `passes_to_inspect`."""

    sample: PassRead
    packed: PassRead | None
    other: PassRead | None
    """The examples of the other split; None if the workload has none."""
    special: tuple[str, ...] = ()
    """Texts of the special tokens in the sample."""


def inspection_of(run: Run, answers: PassAnswers) -> InspectionResult:
    sample, *more = answers.passes
    packed = more.pop(0) if reading_of(run).packs else None
    vocabulary = answers.vocabulary
    special = tuple(vocabulary.text((token,)) for token in vocabulary.kinds if token in vocabulary.texts)
    return InspectionResult(sample=sample, packed=packed, other=more[0] if more else None, special=special)


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
