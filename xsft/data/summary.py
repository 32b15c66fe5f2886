"""Statistics of a sample of sequences. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from xsft.data.examples import TokenSequence, Vocabulary
from xsft.data.passes import GivenRow, InspectionResult, PassRead, ReadSettings

PARTS = 10
"""Bars of a histogram."""


class Lengths(Struct, frozen=True, kw_only=True):
    """Lengths of examples in tokens, before truncation."""

    p50: int
    p90: int
    max: int
    at_least: bool = False
    """Whether `max` is only a lower bound; false, because rows are measured before they are cut."""


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
    """Rows that equal an earlier row of the sample; those without a trained token do not count."""
    in_other: int | None
    """Examples whose trained tokens equal those of an example of the other split's sample; None without another
    split.
    """
    whole_in_other: int | None
    """Rows that equal a row of the other split's sample."""
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
    examples = [sequence for _row, sequence in found.sample.good]
    lengths = sorted(_lengths(found.sample))
    rows = len(found.sample.rows) if found.sample.ended else reading.rows
    packing = _packing_ratio(found.packed, reading.limit)
    steps = _steps_per_epoch(lengths, reading, rows=rows, packing=packing)
    ends = [one.end(vocabulary) for one in examples if one.padding and one.trained_tokens]
    contents = list(_contents(found.sample))
    return Summary(
        rows=rows,
        sampled=len(found.sample.rows),
        everything=found.sample.ended,
        tokens=_summarize_lengths(lengths),
        truncated=_ratio(sum(length > reading.limit for length in lengths), len(lengths)),
        no_target=_ratio(sum(one.trained_tokens == 0 for one in examples), len(examples)),
        no_end=_ratio(ends.count(None), len(ends)),
        trained=_ratio(sum(one.trained_tokens for one in examples), sum(one.length for one in examples)),
        duplicates=len(contents) - len(set(contents)),
        in_other=_count_shared(_targets(found.sample), None if found.other is None else _targets(found.other)),
        whole_in_other=_count_shared(contents, None if found.other is None else _contents(found.other)),
        other_sampled=len(found.other.rows) if found.other else None,
        roles=_roles(found.sample.given),
        packing=packing,
        packed_sequences=len(found.packed.rows) if found.packed else 0,
        steps_per_epoch=steps,
        epochs=reading.steps / steps if steps else None,
        histogram=_histogram(lengths),
        beyond_vocabulary=sum(_has_token_beyond(one, vocabulary) for one in examples),
    )


def _lengths(read: PassRead) -> Iterator[int]:
    """Yield the tokens of each example before it is cut; of a pipeline that shows no texts, after that."""
    if read.given:
        yield from (read.given[row].length for row, _sequence in read.good)
    else:
        yield from (sequence.length for sequence in read.rows)


def _contents(read: PassRead) -> Iterator[object]:
    """Yield what makes rows equal, of each row with a trained token."""
    trained = ((row, sequence) for row, sequence in read.good if sequence.trained_tokens)
    if read.given:
        yield from (read.given[row].content for row, _sequence in trained)
    else:
        yield from ((sequence.inputs, sequence.target_text) for _row, sequence in trained)


def _targets(read: PassRead) -> Iterator[object]:
    yield from (sequence.target_text for _row, sequence in read.good if sequence.trained_tokens)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _summarize_lengths(lengths: Sequence[int]) -> Lengths | None:
    if not lengths:
        return None
    p50, p90 = (lengths[min(len(lengths) - 1, math.ceil(len(lengths) * share) - 1)] for share in (0.5, 0.9))
    return Lengths(p50=p50, p90=p90, max=lengths[-1])


def _count_shared(sample: Iterable[object], other: Iterable[object] | None) -> int | None:
    """Count the keys of the sample that the other sample has; None without another split."""
    if other is None:
        return None
    others = set(other)
    return sum(key in others for key in sample)


def _roles(rows: Sequence[GivenRow]) -> tuple[Role, ...]:
    # Of a row on which MaxText stops, no message is written, whatever its template does.
    formatted = [row for row in rows if not row.fault]
    messages = [message for row in formatted for message in row.messages]
    counts = Counter(message.role for message in messages)
    empty = Counter(message.role for message in messages if message.empty)
    dropped = Counter(message.role for message in messages if not message.written)
    return tuple(Role(role=role, turns=n, empty=empty[role], dropped=dropped[role]) for role, n in counts.items())


def _packing_ratio(packed: PassRead | None, limit: int) -> float | None:
    if packed is None or not packed.rows:
        return None
    return _ratio(sum(one.length for one in packed.rows), limit * len(packed.rows))


def _steps_per_epoch(
    lengths: Sequence[int], reading: ReadSettings, *, rows: int | None, packing: float | None
) -> float | None:
    if rows is None or not lengths:
        return None
    if not packing:
        return rows / reading.sequences_per_step
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
