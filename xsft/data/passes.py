"""Requests to MaxText's pipeline, and its answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from xsft.data.examples import TokenSequence, Vocabulary
from xsft.spec.base import Value
from xsft.spec.resolve import Run
from xsft.trainer.trainer import trainer_of

Split = Literal["train", "eval"]

SAMPLE = 2000
"""Number of rows to read unless all are requested."""
LOOK_AHEAD = 8
"""Lengths are measured up to this multiple of max_target_length."""
PACKED = 64
"""Number of packed sequences whose padding is counted."""


class DataPass(Struct, frozen=True, kw_only=True):
    """One pass over the data from its start."""

    rows: int
    """Maximum number of sequences to read."""
    packing: bool
    max_target_length: int
    split: Split = "train"
    lengths_only: bool = False


class Turn(Struct, frozen=True, kw_only=True):
    """One message of a row, as MaxText's pipeline gets it before the template."""

    role: str
    empty: bool
    written: bool
    """Whether its text is in the template's output for the row."""


class PassRead(Struct, frozen=True, kw_only=True):
    rows: tuple[TokenSequence, ...] = ()
    lengths: tuple[int, ...] = ()
    """Lengths only, if the pass requested only lengths."""
    turns: tuple[tuple[Turn, ...], ...] = ()
    """Messages of each row, unless rows are packed."""
    ended: bool
    """Whether the data ended."""


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
    )


def _integer_or(value: Value, otherwise: int) -> int:
    return int(str(value)) if value is not None else otherwise


def evaluates(run: Run) -> bool:
    """Return whether the workload has evaluation data."""
    return bool(run.spec.data.hf_eval_split or run.spec.data.hf_eval_files)


def passes_to_inspect(run: Run, *, split: Split, rows: int) -> Iterator[DataPass]:
    """Yield the passes in the order that `InspectionResult` expects: examples, their untruncated lengths, and, of the
    training split, packed sequences and the examples of the other split.
    """
    reading = reading_of(run)
    limit = reading.limit
    yield DataPass(rows=rows, packing=False, max_target_length=limit, split=split)
    yield DataPass(rows=rows, packing=False, max_target_length=LOOK_AHEAD * limit, split=split, lengths_only=True)
    if reading.packs:
        yield DataPass(rows=PACKED, packing=True, max_target_length=limit, split=split)
    if evaluates(run):
        other: Split = "eval" if split == "train" else "train"
        yield DataPass(rows=rows, packing=False, max_target_length=limit, split=other)


class InspectionResult(Struct, frozen=True, kw_only=True):
    """The answers to `passes_to_inspect`."""

    sample: PassRead
    uncut: PassRead
    packed: PassRead | None
    other: PassRead | None
    """The examples of the other split; None if the workload has none."""


def inspection_of(run: Run, answers: PassAnswers) -> InspectionResult:
    sample, uncut, *more = answers.passes
    packed = more.pop(0) if reading_of(run).packs else None
    return InspectionResult(sample=sample, uncut=uncut, packed=packed, other=more[0] if more else None)
