"""A sample of the data, as MaxText's own pipeline made it: its statistics and its problems. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from msgspec import Struct

from xsft.base.problems import Problem, error, warning
from xsft.data.answers import check_answers
from xsft.data.passes import GivenRow, InspectionResult, PassRead, ReadSettings, Split, TokenSequence, Vocabulary
from xsft.data.refusals import check_refused_rows
from xsft.workers.row_shape import ROLES

MANY_CUT = 0.1
"""Share of truncated examples above which a problem is reported: they lose the ends of their answers."""
MANY_UNENDED = 0.1
"""Share of answers without a special token at their end above which a problem is reported."""
MANY_DROPPED = 0.5
"""Share of a role's messages above which the template counts as dropping the role."""
FEWEST_SORTED = 50
"""Fewer rows may be in order by chance."""
MOST_LABELS = 20

LOOK = "Look at them: `xsft data show FILE`."
PARTS = 10
"""Bars of a histogram."""


def findings(
    inspection: InspectionResult, summary: Summary, *, reading: ReadSettings, split: Split = "train"
) -> Iterator[Problem]:
    where = "data.hf_train_files" if split == "train" else "data.hf_eval_files"
    yield from check_refused_rows(inspection.sample, where=where)
    # The refused rows, or the error, are the reason that there is no example.
    if not inspection.sample.good:
        if not inspection.sample.error and not inspection.sample.given:
            yield error("data-empty", "data", f"The {split} split has no rows.", f"Check {where} and the split's name.")
        return
    yield from _check_targets(summary, reading)
    yield from _check_truncated_examples(inspection.sample, summary, reading)
    yield from _check_no_end(summary)
    for role in summary.roles:
        yield from _check_role(role)
    yield from _check_contents(inspection.sample.given, where)
    yield from check_answers(inspection.sample, special=inspection.special)
    yield from _check_examples(summary)
    if split == "train":
        yield from _check_steps(inspection.packed, summary, reading)
        if not reading.shuffles:
            yield from _check_order(inspection.sample.given)


def _check_targets(summary: Summary, reading: ReadSettings) -> Iterator[Problem]:
    if summary.no_target == 1:
        message = f"Not one of {summary.sampled:,} examples has a trained token: the model would not be trained."
        if summary.truncated:
            message = f"{message} {summary.truncated:.0%} of them are cut at {reading.limit} tokens."
        fix = f"{LOOK} Often the template writes no answer after the roles."
        yield error("data-no-target", "data", message, fix)
    elif summary.no_target > 0:
        message = f"{summary.no_target:.1%} of {summary.sampled:,} examples have no trained token."
        yield warning("data-no-target", "data", message, "Look at them: `xsft data show FILE --no-target`.")


def _check_truncated_examples(sample: PassRead, summary: Summary, reading: ReadSettings) -> Iterator[Problem]:
    if summary.truncated <= MANY_CUT:
        return
    where = "train.max_target_length"
    look = f"Raise {where}, or look at them: `xsft data show FILE --truncated`."
    row, longest = max(enumerate(sample.given), key=lambda numbered: numbered[1].length)
    example = f"the longest, row {row}, has {longest.length:,}"
    if summary.truncated == 1:
        message = (
            f"Every one of {summary.sampled:,} examples is longer than {reading.limit} tokens and is cut; {example}."
        )
        yield error("data-truncated", where, message, look)
    else:
        share = f"{summary.truncated:.1%} of {summary.sampled:,} examples"
        message = f"{share} are longer than {reading.limit} tokens and are cut; {example}."
        yield warning("data-truncated", where, message, look)


def _check_no_end(summary: Summary) -> Iterator[Problem]:
    if summary.no_end <= MANY_UNENDED:
        return
    share = f"{summary.no_end:.1%} of {summary.sampled:,} examples"
    message = f"{share} train no special token at the end of the answer: the model does not learn to stop."
    fix = "Let the template write the EOS after each answer. If it does, pad_token or bos_token is the same token."
    yield warning("data-no-end", "data.chat_template", message, fix)


def _check_role(role: Role) -> Iterator[Problem]:
    with_text = role.turns - role.empty
    if with_text and role.dropped > MANY_DROPPED * with_text:
        message = f"The template drops {role.dropped:,} of {with_text:,} messages of the role {role.role!r}."
        fix = "Let data.chat_template write the content of this role."
        if role.role not in ROLES:
            message = f"MaxText drops all {with_text:,} messages of the role {role.role!r}."
            fix = f"Use one of {', '.join(ROLES)}, or accept this if the model need not learn from them."
        yield warning("data-role-dropped", "data.chat_template", message, fix)
    if role.empty and role.role != "system":  # some files have an empty system message on purpose
        message = f"{role.empty:,} of {role.turns:,} messages of the role {role.role!r} are empty."
        yield warning("data-empty-turn", "data", message, "Remove such rows, or fill them.")


def _check_contents(rows: Sequence[GivenRow], where: str) -> Iterator[Problem]:
    kinds = [message.kind for row in rows for message in row.messages]
    if null := kinds.count("NoneType"):
        message = f"{null:,} of {len(kinds):,} messages are null: a template writes nothing for them, or the word None."
        yield warning("data-null", where, message, "Remove such rows, or fill them.")
    if parts := kinds.count("list"):
        message = (
            f"{parts:,} of {len(kinds):,} messages are lists of parts, as in multimodal data. MaxText passes the "
            "lists to the template unchanged: most templates write nothing for them, or the list as Python prints it."
        )
        yield warning("data-parts", where, message, "Write the text of the parts as the content.")


def _check_examples(summary: Summary) -> Iterator[Problem]:
    if summary.beyond_vocabulary:
        message = (
            f"{summary.beyond_vocabulary:,} of {summary.sampled:,} examples have token ids without a row in the "
            "model's embedding: the tokenizer is not the model's."
        )
        yield error("data-vocabulary", "model.tokenizer", message, "Use the tokenizer of this model.")
    if summary.whole_in_other:
        message = (
            f"{summary.whole_in_other:,} of {summary.sampled:,} examples are also in the other split: the evaluation "
            "measures trained examples."
        )
        yield warning("data-leak", "data.hf_eval_split", message, "Remove them from one of the splits.")


def _check_steps(packed: PassRead | None, summary: Summary, reading: ReadSettings) -> Iterator[Problem]:
    """Compare train.steps with the packed rows; `steps-beyond-data` counts one row per sequence."""
    if summary.steps_per_epoch is None or not summary.everything:
        return
    steps = summary.steps_per_epoch * reading.epochs
    if reading.steps <= math.ceil(steps):
        return
    message = f"train.steps is {reading.steps}, and the data lasts for {steps:.1f}: MaxText stops there and exits 0."
    fix = f"Set data.num_epoch: {math.ceil(reading.steps / summary.steps_per_epoch)}, or lower train.steps."
    # Each process packs its own rows, which may give one step more. Of sequences that were not all read, the others may
    # be emptier, but the rows of two fill more than one.
    limit = math.ceil(steps) + 1
    if packed is not None and not packed.ended:
        limit = math.ceil(2 * steps)
    if reading.steps > limit:
        yield error("data-steps", "train.steps", message, fix, kind="disputable")
    else:
        yield warning("data-steps", "train.steps", message, fix)


def _check_order(rows: Sequence[GivenRow]) -> Iterator[Problem]:
    """Check for rows in an order that shows in the loss. For the whole file: a sample begins with one kind of rows."""
    if len(rows) < FEWEST_SORTED:
        return
    lengths = [row.length for row in rows]
    answers = [answer for row in rows for answer, _trained in row.answers]
    labels = len(set(answers))
    runs = sum(1 for _run in groupby(answers))
    # Few different lengths are in order by chance; rows sorted by their answer have each answer in one run.
    if len(set(lengths)) > MOST_LABELS and (_is_rising(lengths) or _is_rising(lengths[::-1])):
        order = "length"
    elif 1 < labels <= MOST_LABELS and labels == runs:
        order = "answer"
    else:
        return
    message = f"The first {len(rows):,} rows are sorted by {order}, and enable_data_shuffling is false."
    fix = "Shuffle the rows of the files, or remove enable_data_shuffling: false."
    yield warning("data-sorted", "data", message, fix)


def _is_rising(numbers: Sequence[int]) -> bool:
    return all(before <= after for before, after in pairwise(numbers))


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


def summarize(inspection: InspectionResult, *, reading: ReadSettings, vocabulary: Vocabulary) -> Summary:
    other = inspection.other
    examples = [sequence for _row, sequence in inspection.sample.good]
    lengths = sorted(_lengths(inspection.sample))
    rows = len(inspection.sample.rows) if inspection.sample.ended else reading.rows
    packing = _packing_ratio(inspection.packed, reading.limit)
    steps = _steps_per_epoch(lengths, reading, rows=rows, packing=packing)
    ends = [sequence.end(vocabulary) for sequence in examples if sequence.padding and sequence.trained_tokens]
    contents = list(_contents(inspection.sample))
    return Summary(
        rows=rows,
        sampled=len(inspection.sample.rows),
        everything=inspection.sample.ended,
        tokens=_summarize_lengths(lengths),
        truncated=_ratio(sum(length > reading.limit for length in lengths), len(lengths)),
        no_target=_ratio(sum(sequence.trained_tokens == 0 for sequence in examples), len(examples)),
        no_end=_ratio(ends.count(None), len(ends)),
        trained=_ratio(
            sum(sequence.trained_tokens for sequence in examples), sum(sequence.length for sequence in examples)
        ),
        duplicates=len(contents) - len(set(contents)),
        in_other=None if other is None else _count_shared(_targets(inspection.sample), _targets(other)),
        whole_in_other=None if other is None else _count_shared(contents, _contents(other)),
        other_sampled=None if other is None else len(other.rows),
        roles=_roles(inspection.sample.given),
        packing=packing,
        packed_sequences=len(inspection.packed.rows) if inspection.packed else 0,
        steps_per_epoch=steps,
        epochs=reading.steps / steps if steps else None,
        histogram=_histogram(lengths),
        beyond_vocabulary=_count_beyond(examples, vocabulary),
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


def _ratio(part: float, total: float) -> float:
    return part / total if total else 0.0


def _summarize_lengths(lengths: Sequence[int]) -> Lengths | None:
    if not lengths:
        return None
    p50, p90 = (lengths[min(len(lengths) - 1, math.ceil(len(lengths) * share) - 1)] for share in (0.5, 0.9))
    return Lengths(p50=p50, p90=p90, max=lengths[-1])


def _count_shared(sample: Iterable[object], other: Iterable[object]) -> int:
    """Count the keys of the sample that the other sample has."""
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
    return _ratio(sum(sequence.length for sequence in packed.rows), limit * len(packed.rows))


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


def _count_beyond(examples: Iterable[TokenSequence], vocabulary: Vocabulary) -> int:
    if vocabulary.rows is None:
        return 0
    return sum(max(sequence.inputs, default=-1) >= vocabulary.rows for sequence in examples)
