"""Problems in a sample of the data. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xsft.base.problems import Problem, error, warning
from xsft.data.passes import ReadSettings, Split
from xsft.data.summary import Role, Summary

MANY_CUT = 0.1
"""Share of truncated examples above which a problem is reported: they lose the ends of their answers."""
MANY_UNENDED = 0.1
"""Share of answers without a special token at their end above which a problem is reported."""
MANY_DROPPED = 0.5
"""Share of a role's messages above which the template counts as dropping the role."""

LOOK = "Look at them: `xsft data show FILE`."


def findings(summary: Summary, *, reading: ReadSettings, split: Split = "train") -> Iterator[Problem]:
    if not summary.sampled:
        where = "hf_train_files and data.train_split" if split == "train" else "hf_eval_files and data.hf_eval_split"
        yield error("data-empty", "data", f"The {split} split has no rows.", f"Check data.{where}.")
        return
    yield from _targets(summary, reading)
    yield from _check_truncated_examples(summary, reading)
    yield from _check_no_end(summary)
    for role in summary.roles:
        yield from _check_role(role)
    yield from _check_token_ids(summary)
    yield from _split_leak(summary)
    if split == "train":
        yield from _check_steps(summary, reading)


def _targets(summary: Summary, reading: ReadSettings) -> Iterator[Problem]:
    if summary.no_target == 1:
        message = f"Not one of {summary.sampled:,} examples has a trained token: the model would not be trained."
        raised = f" {summary.truncated:.0%} of them are cut at {reading.limit} tokens." if summary.truncated else ""
        fix = f"{LOOK} Often the template writes no answer after the roles."
        yield error("data-no-target", "data", message + raised, fix)
    elif summary.no_target > 0:
        message = f"{summary.no_target:.1%} of {summary.sampled:,} examples have no trained token."
        yield warning("data-no-target", "data", message, "Look at them: `xsft data show FILE --no-target`.")


def _check_truncated_examples(summary: Summary, reading: ReadSettings) -> Iterator[Problem]:
    where, fix = "train.max_target_length", "Raise train.max_target_length"
    look = f"{fix}, or look at them: `xsft data show FILE --truncated`."
    if summary.truncated == 1:
        message = f"Every one of {summary.sampled:,} examples is longer than {reading.limit} tokens and is cut."
        yield error("data-truncated", where, message, look)
    elif summary.truncated > MANY_CUT:
        share = f"{summary.truncated:.1%} of {summary.sampled:,} examples"
        yield warning("data-truncated", where, f"{share} are longer than {reading.limit} tokens and are cut.", look)


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
        fix = "Let data.chat_template write this role. MaxText reads the roles system, user and assistant only."
        yield warning("data-role-dropped", "data.chat_template", message, fix)
    if role.empty and role.role != "system":  # some files have an empty system message on purpose
        message = f"{role.empty:,} of {role.turns:,} messages of the role {role.role!r} are empty."
        yield warning("data-empty-turn", "data", message, "Remove such rows, or fill them.")


def _check_token_ids(summary: Summary) -> Iterator[Problem]:
    if summary.beyond_vocabulary:
        message = (
            f"{summary.beyond_vocabulary:,} of {summary.sampled:,} examples have token ids without a row in the "
            "model's embedding: the tokenizer is not the model's."
        )
        yield error("data-vocabulary", "model.tokenizer", message, "Use the tokenizer of this model.")


def _split_leak(summary: Summary) -> Iterator[Problem]:
    if summary.whole_in_other:
        message = (
            f"{summary.whole_in_other:,} of {summary.sampled:,} examples are also in the other split: the evaluation "
            "measures trained examples."
        )
        yield warning("data-leak", "data.hf_eval_split", message, "Remove them from one of the splits.")


def _check_steps(summary: Summary, reading: ReadSettings) -> Iterator[Problem]:
    """Compare train.steps with the packed rows; `steps-beyond-data` counts one row per sequence."""
    if summary.steps_per_epoch is None or not summary.everything:
        return
    most = summary.steps_per_epoch * reading.epochs
    if reading.steps > math.ceil(most):
        message = f"train.steps is {reading.steps}, and the data lasts for {most:.1f}: MaxText stops there and exits 0."
        needed = math.ceil(reading.steps / summary.steps_per_epoch)
        yield warning("data-steps", "train.steps", message, f"Set data.num_epoch: {needed}, or lower train.steps.")
