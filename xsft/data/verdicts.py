"""Problems in sampled rows of local files, judged by the copy of MaxText's rules. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from xsft.base.problems import Problem, error, warning
from xsft.data.facts import DataFacts, RoundTokens, SampledRow
from xsft.data.findings import MANY_CUT, MANY_DROPPED
from xsft.data.passes import Split
from xsft.workers.row_rules import (
    ROLES,
    Message,
    RowProblem,
    RowRules,
    RowVerdict,
    added_columns,
    judge_row,
    stretched,
    uneven,
)

JUDGED = 200
"""Number of rows of a sample that are judged, spread evenly; rendering one takes 0.1 ms."""

FIXES: dict[RowProblem, str] = {
    "data-columns": "Set data.columns to the columns of the rows, or rename the columns in the data.",
    "data-conversation": (
        "Write each conversation as a list of messages with role and content; texts go into the columns "
        "[question, answer]."
    ),
    "data-roles": "Write system (once, first), then user and assistant in turn.",
    "data-template": "Correct data.chat_template, or the rows that it refuses.",
    "data-no-target": "Check that the rows have answers, and that the template writes them.",
}


class _JudgedRow(Struct, frozen=True):
    at: str
    verdict: RowVerdict


TEXT_CHARACTERS = 500_000
"""Maximum characters that are tokenised for a check: half a second."""

Round = tuple[str, str]


def texts_of(rows: Sequence[SampledRow], rules: RowRules) -> tuple[tuple[Round, ...], ...]:
    """Return the rounds of the rows that are judged, (prompt, answer) each, as many as a check tokenises."""
    left, found = TEXT_CHARACTERS, []
    for row in rows[:: max(1, -(-len(rows) // JUDGED))]:
        parts = judge_row(row.row, rules).parts
        left -= sum(len(prompt) + len(answer) for prompt, answer in parts)
        if left < 0:
            break
        found.append(parts)
    return tuple(filter(None, found))


def length_problems(
    rows: Sequence[Sequence[RoundTokens]], *, limit: int, completion_only: bool, split: Split = "train"
) -> Iterator[Problem]:
    """Yield what the lengths say. `limit`: max_target_length."""
    noun, show = ("rows", "FILE") if split == "train" else ("rows for evaluation", "FILE --split eval")
    cut = sum(sum(map(sum, rounds)) > limit for rounds in rows)
    if cut > MANY_CUT * len(rows):
        raised = error if cut == len(rows) else warning
        message = f"{cut:,} of {len(rows):,} checked {noun} are longer than {limit} tokens and are cut."
        fix = f"Raise train.max_target_length, or look at them: `xsft data show {show} --truncated`."
        yield raised("data-truncated", "train.max_target_length", message, fix)
    without = sum(completion_only and not _has_target(rounds, limit) for rounds in rows)
    if without:
        raised = error if without == len(rows) else warning
        message = f"{without:,} of {len(rows):,} checked {noun} are cut before their answer begins."
        fix = f"Raise train.max_target_length, or look at them: `xsft data show {show} --no-target`."
        yield raised("data-no-target", "train.max_target_length", message, fix)


def _has_target(rounds: Sequence[RoundTokens], limit: int) -> bool:
    """Return whether an answer begins before the limit. source: maxtext@0.2.5 input_pipeline/input_pipeline_utils.py
    [SFTPromptMasking].
    """
    begin = 0
    for prompt, answer in rounds:
        begin += prompt
        if answer and begin < limit:
            return True
        begin += answer
    return False


def row_problems(found: DataFacts, rules: RowRules, *, where: str) -> Iterator[Problem]:
    """Yield the problems of the rows. `where`: the field with the files."""
    rows = found.rows
    chosen = rows[:: max(1, -(-len(rows) // JUDGED))]
    judged = [_JudgedRow(row.at, judge_row(row.row, rules)) for row in chosen]
    refused = [one for one in judged if one.verdict.outcome == "refused"]
    yield from _refusals(refused, len(judged), where)
    if not refused and not rules.grain:  # Grain reads each file by its own columns
        yield from _check_message_keys(rows, rules, where)
        if found.counted is not None:  # a sample does not show which columns the first rows have
            yield from _check_added_columns(rows, where)
    yield from _learnt([one for one in judged if one.verdict.outcome != "refused"], where)


def _refusals(refused: Sequence[_JudgedRow], count: int, where: str) -> Iterator[Problem]:
    by_id: dict[RowProblem, list[_JudgedRow]] = {}
    for one in refused:
        if one.verdict.id:
            by_id.setdefault(one.verdict.id, []).append(one)
    for name, found in by_id.items():
        first = found[0]
        message = f"{len(found):,} of {count:,} checked rows stop MaxText: {first.at} {first.verdict.why}."
        yield error(name, where, message, FIXES[name], kind="disputable")


def _check_message_keys(rows: Sequence[SampledRow], rules: RowRules, where: str) -> Iterator[Problem]:
    if uneven([row.row for row in rows if row.keys == "alike"], rules):
        message = (
            "Some messages have keys that others lack: MaxText stops with `Dataset is not in conversational format`."
        )
        yield _uneven_messages_problem(message, where)
    elif stretched(
        [row.row for row in rows if row.keys != "cast"], [row.row for row in rows if row.keys == "cast"], rules
    ):
        message = "Some messages have keys that those of the first rows lack: MaxText stops with `Couldn't cast array`."
        yield _uneven_messages_problem(message, where)


def _check_added_columns(rows: Sequence[SampledRow], where: str) -> Iterator[Problem]:
    first = [row.row for row in rows if row.keys != "cast"]
    if added := added_columns(first, [row.row for row in rows if row.keys == "cast"]):
        message = (
            f"A later file has columns that the first one lacks: {', '.join(added)}. MaxText stops with `CastError`."
        )
        yield error("data-columns", where, message, "Give every file the same columns.", kind="disputable")


def _uneven_messages_problem(message: str, where: str) -> Problem:
    fix = "Give every message the same keys: role and content."
    return error("data-conversation", where, message, fix, kind="disputable")


def _learnt(judged: Sequence[_JudgedRow], where: str) -> Iterator[Problem]:
    nothing = [one for one in judged if one.verdict.outcome == "nothing"]
    if nothing:
        raised = error if len(nothing) == len(judged) else warning
        message = f"{len(nothing):,} of {len(judged):,} checked rows have no trained token: {nothing[0].at}."
        yield raised("data-no-target", where, message, FIXES["data-no-target"])
    messages = [message for one in judged for message in one.verdict.messages]
    yield from _check_dropped_roles(judged, messages)
    yield from _hollow(messages, where)
    yield from _of_parts(judged, where)


def _check_dropped_roles(judged: Sequence[_JudgedRow], messages: Sequence[Message]) -> Iterator[Problem]:
    spoken = Counter(str(one["role"]) for one in messages if one["content"] not in ("", None))
    unwritten = Counter(role for one in judged for role in one.verdict.unwritten)
    for role, count in spoken.items():
        if role not in ROLES:
            message = f"MaxText drops all {count:,} checked messages of the role {role!r}."
            fix = f"Use one of {', '.join(ROLES)}, or accept this if the model need not learn from them."
            yield warning("data-role-dropped", "data.columns", message, fix)
        elif unwritten[role] > MANY_DROPPED * count:
            message = f"The template writes {count - unwritten[role]:,} of {count:,} messages of the role {role!r}."
            yield warning("data-role-dropped", "data.chat_template", message, "Let it write the content of this role.")


def _hollow(messages: Sequence[Message], where: str) -> Iterator[Problem]:
    null = sum(one["content"] is None for one in messages)
    if null:
        message = (
            f"{null:,} of {len(messages):,} messages are null: a template writes nothing for them, or the word None."
        )
        yield warning("data-null", where, message, "Remove such rows, or fill them.")
    empty = sum(_is_empty(one) for one in messages)
    if empty:
        message = f"{empty:,} of {len(messages):,} messages of users and assistants are empty."
        yield warning("data-empty-turn", where, message, "Remove such rows, or fill them.")


def _of_parts(judged: Sequence[_JudgedRow], where: str) -> Iterator[Problem]:
    found = [one for one in judged if any(isinstance(message["content"], list) for message in one.verdict.messages)]
    unwritten = [one for one in found if not _writes_parts(one.verdict)]
    if unwritten:
        message = (
            f"{len(unwritten):,} of {len(judged):,} rows have messages that are lists of parts, as in multimodal data. "
            "MaxText passes the lists to the template unchanged: most templates write nothing for them, or the list as "
            "Python prints it."
        )
        yield warning("data-parts", where, message, "Write the text of the parts as the content.")


def _writes_parts(verdict: RowVerdict) -> bool:
    """Return whether the template is known, and writes the text of each part but not the list."""
    written = " ".join(chain.from_iterable(verdict.parts))
    lists = (message["content"] for message in verdict.messages if isinstance(message["content"], list))
    texts = [str(part.get("text", "")) for part in chain.from_iterable(lists) if isinstance(part, dict)]
    return bool(written) and "'type'" not in written and all(text in written for text in texts)


def _is_empty(message: Message) -> bool:
    """Return whether the message is empty; an empty system message is allowed, to write the conversation's head
    once.
    """
    content = message["content"]
    return isinstance(content, str) and not content.strip() and message["role"] != "system"
