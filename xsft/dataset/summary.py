"""What a sample of sequences says about a data set. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from xsft.dataset import examples


class Lengths(Struct, frozen=True, kw_only=True):
    """Tokens of an example before it is cut."""

    p50: int
    p90: int
    max: int
    at_least: bool
    """`max` is where looking stopped: the longest example has as many or more."""


class Summary(Struct, frozen=True, kw_only=True):
    rows: int | None
    """Of the whole split; None where only a sample was read."""
    sampled: int
    tokens: Lengths | None
    """None where nothing was read."""
    truncated: float
    """Share of examples that are longer than max_target_length, 0 … 1."""
    no_target: float
    """Share without a trained token."""
    trained: float
    """Share of trained tokens among those that are read."""
    duplicates: int
    """Examples whose trained tokens are those of another one of the sample."""
    packing: float | None
    """Share of positions that are not padding once examples are packed; None where the run does not pack."""
    steps_per_epoch: float | None
    """None where the number of rows is unknown."""
    histogram: tuple[tuple[int, int], ...]
    """(upper bound of the length, examples), ten equal parts of the range."""


class DataSample(Struct, frozen=True, kw_only=True):
    """What was read, and how."""

    sample: Sequence[examples.TokenSequence]
    lengths: Sequence[int]
    """Of the same examples, uncut; as long as the sample."""
    looked_to: int
    """The length up to which they were looked at."""
    packed: Sequence[examples.TokenSequence]
    """Sequences of the same data, packed; empty where the run does not pack."""
    limit: int
    """max_target_length."""
    rows: int | None
    sequences_per_step: float


def summarize(counted: DataSample) -> Summary:
    sample, lengths = counted.sample, sorted(counted.lengths)
    read = sum(one.length for one in sample)
    packing = _packing(counted)
    return Summary(
        rows=counted.rows,
        sampled=len(sample),
        tokens=_lengths(lengths, counted.looked_to),
        truncated=_share(sum(length > counted.limit for length in lengths), len(lengths)),
        no_target=_share(sum(one.trained_tokens == 0 for one in sample), len(sample)),
        trained=_share(sum(one.trained_tokens for one in sample), read),
        duplicates=len(sample) - len({one.target_text for one in sample}) if sample else 0,
        packing=packing,
        steps_per_epoch=_steps(counted, packing),
        histogram=_histogram(lengths),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _lengths(lengths: Sequence[int], looked_to: int) -> Lengths | None:
    if not lengths:
        return None
    p50, p90 = (lengths[min(len(lengths) - 1, math.ceil(len(lengths) * share) - 1)] for share in (0.5, 0.9))
    return Lengths(p50=p50, p90=p90, max=lengths[-1], at_least=lengths[-1] >= looked_to)


def _packing(counted: DataSample) -> float | None:
    if not counted.packed:
        return None
    return _share(sum(one.length for one in counted.packed), counted.limit * len(counted.packed))


def _steps(counted: DataSample, packing: float | None) -> float | None:
    if counted.rows is None or not counted.sample:
        return None
    if not packing:
        return counted.rows / counted.sequences_per_step
    mean = sum(min(length, counted.limit) for length in counted.lengths) / len(counted.lengths)
    return counted.rows * mean / (packing * counted.limit) / counted.sequences_per_step


def _histogram(lengths: Sequence[int], parts: int = 10) -> tuple[tuple[int, int], ...]:
    if not lengths:
        return ()
    width = max(1, math.ceil((lengths[-1] + 1) / parts))
    counts: Mapping[int, int] = {part: sum(length // width == part for length in lengths) for part in range(parts)}
    return tuple((width * (part + 1), count) for part, count in counts.items())
