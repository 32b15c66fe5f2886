"""Statistics of a sample of sequences. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from xsft.data.examples import TokenSequence, Vocabulary
from xsft.data.passes import LOOK_AHEAD, InspectionResult, PassRead, ReadSettings, Turn

PARTS = 10
"""Bars of a histogram."""


class Lengths(Struct, frozen=True, kw_only=True):
    """Lengths of examples in tokens, before truncation."""

    p50: int
    p90: int
    max: int
    at_least: bool
    """Whether `max` is only a lower bound, because measuring stopped there."""


class Role(Struct, frozen=True, kw_only=True):
    """The messages of one role."""

    role: str
    turns: int
    empty: int
    """Messages without text."""
    dropped: int
    """Messages whose text is not in the template's output."""


class Summary(Struct, frozen=True, kw_only=True):
    rows: int | None
    """Rows of the whole split; None if only a sample was read."""
    sampled: int
    """Number of rows read, from the first."""
    everything: bool
    """Whether the sample is the whole split."""
    tokens: Lengths | None
    """None if nothing was read."""
    truncated: float
    """Share of examples longer than max_target_length, 0 to 1."""
    no_target: float
    """Share of examples without a trained token."""
    no_end: float
    """Share of examples whose answer ends in an ordinary token, among those with a trained end; truncated ones do not
    count.
    """
    trained: float
    """Share of trained tokens among all tokens read."""
    duplicates: int
    """Examples whose trained tokens equal those of an earlier example of the sample."""
    in_other: int | None
    """Examples whose trained tokens equal those of an example of the other split's sample; None without another
    split.
    """
    whole_in_other: int | None
    """Examples among these that are equal as a whole."""
    other_sampled: int | None
    roles: tuple[Role, ...]
    """Roles in order of appearance."""
    packing: float | None
    """Share of positions that are not padding after packing; None if the run does not pack."""
    packed_sequences: int
    steps_per_epoch: float | None
    """None if the number of rows is unknown."""
    epochs: float | None
    """Epochs that train.steps needs."""
    histogram: tuple[tuple[int, int], ...]
    """(upper bound of the length, examples), ten equal parts of the range."""
    beyond_vocabulary: int
    """Examples with a token id outside the model's embedding."""


def summarize(found: InspectionResult, *, reading: ReadSettings, vocabulary: Vocabulary) -> Summary:
    sample, lengths = found.sample.rows, sorted(found.uncut.lengths)
    rows = len(sample) if found.sample.ended else reading.rows
    packing = _packing_ratio(found.packed, reading.limit)
    steps = _steps_per_epoch(found, reading, rows=rows, packing=packing)
    ends = [one.end(vocabulary) for one in sample if one.padding and one.trained_tokens]
    return Summary(
        rows=rows,
        sampled=len(sample),
        everything=found.sample.ended,
        tokens=_summarize_lengths(lengths, LOOK_AHEAD * reading.limit),
        truncated=_ratio(sum(length > reading.limit for length in lengths), len(lengths)),
        no_target=_ratio(sum(one.trained_tokens == 0 for one in sample), len(sample)),
        no_end=_ratio(ends.count(None), len(ends)),
        trained=_ratio(sum(one.trained_tokens for one in sample), sum(one.length for one in sample)),
        duplicates=len(sample) - len({one.target_text for one in sample}) if sample else 0,
        in_other=_count_shared_examples(sample, found.other, attrgetter("target_text")),
        whole_in_other=_count_shared_examples(sample, found.other, attrgetter("inputs", "target_text")),
        other_sampled=len(found.other.rows) if found.other else None,
        roles=_roles(found.sample.turns),
        packing=packing,
        packed_sequences=len(found.packed.rows) if found.packed else 0,
        steps_per_epoch=steps,
        epochs=reading.steps / steps if steps else None,
        histogram=_histogram(lengths),
        beyond_vocabulary=sum(_has_token_beyond(one, vocabulary) for one in sample),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _summarize_lengths(lengths: Sequence[int], looked_to: int) -> Lengths | None:
    if not lengths:
        return None
    p50, p90 = (lengths[min(len(lengths) - 1, math.ceil(len(lengths) * share) - 1)] for share in (0.5, 0.9))
    return Lengths(p50=p50, p90=p90, max=lengths[-1], at_least=lengths[-1] >= looked_to)


def _count_shared_examples(
    sample: Sequence[TokenSequence], other: PassRead | None, key: Callable[[TokenSequence], object]
) -> int | None:
    """Count examples that occur in the other sample, except those without a trained token."""
    if other is None:
        return None
    others = {key(one) for one in other.rows if one.trained_tokens}
    return sum(key(one) in others for one in sample)


def _roles(rows: Sequence[Sequence[Turn]]) -> tuple[Role, ...]:
    turns = [turn for row in rows for turn in row]
    counts = Counter(turn.role for turn in turns)
    empty = Counter(turn.role for turn in turns if turn.empty)
    dropped = Counter(turn.role for turn in turns if not turn.written)
    return tuple(Role(role=role, turns=n, empty=empty[role], dropped=dropped[role]) for role, n in counts.items())


def _packing_ratio(packed: PassRead | None, limit: int) -> float | None:
    if packed is None or not packed.rows:
        return None
    return _ratio(sum(one.length for one in packed.rows), limit * len(packed.rows))


def _steps_per_epoch(
    found: InspectionResult, reading: ReadSettings, *, rows: int | None, packing: float | None
) -> float | None:
    if rows is None or not found.uncut.lengths:
        return None
    if not packing:
        return rows / reading.sequences_per_step
    lengths = found.uncut.lengths
    mean = sum(min(length, reading.limit) for length in lengths) / len(lengths)
    return rows * mean / (packing * reading.limit) / reading.sequences_per_step


def _histogram(lengths: Sequence[int]) -> tuple[tuple[int, int], ...]:
    if not lengths:
        return ()
    width = max(1, math.ceil((lengths[-1] + 1) / PARTS))
    counts: Mapping[int, int] = {part: sum(length // width == part for length in lengths) for part in range(PARTS)}
    return tuple((width * (part + 1), count) for part, count in counts.items())


def _has_token_beyond(one: TokenSequence, vocabulary: Vocabulary) -> bool:
    return vocabulary.rows is not None and max(one.inputs, default=-1) >= vocabulary.rows
