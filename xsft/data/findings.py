"""Problems in a sample of the data, as MaxText's own pipeline made it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from xsft.base.problems import Problem, error, warning
from xsft.data.answers import check_answers
from xsft.data.passes import GivenRow, InspectionResult, PassRead, ReadSettings, Split
from xsft.data.refusals import check_refused_rows
from xsft.data.summary import Role, Summary
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


def findings(
    found: InspectionResult, summary: Summary, *, reading: ReadSettings, split: Split = "train"
) -> Iterator[Problem]:
    where = _files_field(split)
    yield from check_refused_rows(found.sample, where=where)
    # The refused rows, or the error, are the reason that there is no example.
    if not found.sample.good:
        if not found.sample.error and not found.sample.given:
            yield error("data-empty", "data", f"The {split} split has no rows.", f"Check {where} and the split's name.")
        return
    yield from _check_targets(summary, reading)
    yield from _check_truncated_examples(found.sample, summary, reading)
    yield from _check_no_end(summary)
    for role in summary.roles:
        yield from _check_role(role)
    yield from _check_contents(found.sample.given, where)
    yield from check_answers(found.sample, special=found.special)
    yield from _check_token_ids(summary)
    yield from _check_split_leak(summary)
    if split == "train":
        yield from _check_steps(found.packed, summary, reading)
        if not reading.shuffles:
            yield from _check_order(found.sample.given)


def _files_field(split: Split) -> str:
    if split == "train":
        return "data.hf_train_files"
    return "data.hf_eval_files"


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
    where, fix = "train.max_target_length", "Raise train.max_target_length"
    look = f"{fix}, or look at them: `xsft data show FILE --truncated`."
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


def _check_contents(given: Sequence[GivenRow], where: str) -> Iterator[Problem]:
    kinds = [message.kind for row in given for message in row.messages]
    if null := kinds.count("NoneType"):
        message = f"{null:,} of {len(kinds):,} messages are null: a template writes nothing for them, or the word None."
        yield warning("data-null", where, message, "Remove such rows, or fill them.")
    if parts := kinds.count("list"):
        message = (
            f"{parts:,} of {len(kinds):,} messages are lists of parts, as in multimodal data. MaxText passes the "
            "lists to the template unchanged: most templates write nothing for them, or the list as Python prints it."
        )
        yield warning("data-parts", where, message, "Write the text of the parts as the content.")


def _check_token_ids(summary: Summary) -> Iterator[Problem]:
    if summary.beyond_vocabulary:
        message = (
            f"{summary.beyond_vocabulary:,} of {summary.sampled:,} examples have token ids without a row in the "
            "model's embedding: the tokenizer is not the model's."
        )
        yield error("data-vocabulary", "model.tokenizer", message, "Use the tokenizer of this model.")


def _check_split_leak(summary: Summary) -> Iterator[Problem]:
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
    most = math.ceil(steps) + 1
    if packed is not None and not packed.ended:
        most = math.ceil(2 * steps)
    if reading.steps > most:
        yield error("data-steps", "train.steps", message, fix, kind="disputable")
    else:
        yield warning("data-steps", "train.steps", message, fix)


def _check_order(given: Sequence[GivenRow]) -> Iterator[Problem]:
    """Check for rows in an order that shows in the loss. For the whole file: a sample begins with one kind of rows."""
    if len(given) < FEWEST_SORTED:
        return
    lengths = [row.length for row in given]
    answers = [answer for row in given for answer, _trained in row.answers]
    labels, runs = len(set(answers)), sum(1 for _run in groupby(answers))
    if len(set(lengths)) > MOST_LABELS and (_is_rising(lengths) or _is_rising(lengths[::-1])):
        order = "length"
    elif 1 < labels <= MOST_LABELS and labels == runs:
        order = "answer"
    else:
        return
    message = f"The first {len(given):,} rows are sorted by {order}, and enable_data_shuffling is false."
    fix = "Shuffle the rows of the files, or remove enable_data_shuffling: false."
    yield warning("data-sorted", "data", message, fix)


def _is_rising(numbers: Sequence[int]) -> bool:
    return all(before <= after for before, after in pairwise(numbers))
