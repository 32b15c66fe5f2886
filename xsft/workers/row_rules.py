"""A copy of MaxText's rules for rows: those that its pipeline accepts, fails on, or learns nothing from. Pure.

MaxText's own imports take longer than all of `xsft check`. tests/contract/test_rules.py compares the copy with MaxText
on some hundred rows. `xsft data prepare` loads this file in MaxText's environment, so it imports only the standard
library. source: maxtext@0.2.5 input_pipeline/hf_data_processing.py [preprocessing_pipeline], grain_data_processing.py
[_format_chat_template_grain], input_pipeline_utils.py
[is_conversational, combine_columns, apply_chat_template], instruction_data_processing.py [math_qa_formatting];
datasets@5.2.0 packaged_modules/json/json.py (types are inferred, and messages of uneven keys are no messages), table.py
[cast_array_to_feature]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

RowOutcome = Literal["trained", "nothing", "refused"]
RowProblem = Literal["data-columns", "data-conversation", "data-roles", "data-template", "data-no-target"]
Message = Mapping[str, Any]
RenderMessages = Callable[[list[dict[str, Any]], bool], str]
"""Render (messages, whether to add the start of an answer) to text. May raise any exception."""

ROLES = ("system", "user", "assistant")
MESSAGE = frozenset({"role", "content"})


@dataclass(frozen=True, kw_only=True)
class RowRules:
    columns: tuple[str, ...]
    texts: bool = False
    """Whether prompt and completion are texts, for Grain's pipeline, not lists of messages."""
    grain: Literal["", "parquet", "arrayrecord"] = ""
    """Format of the files that Grain's pipeline reads; empty for Hugging Face's pipeline."""
    render: RenderMessages | None = None
    """None if the template is unknown: its output is not checked."""
    completion_only: bool = True
    separator: str = ""
    """Text between reasoning and answer, if texts surround questions and answers."""
    formatted: bool = False
    """Whether texts surround questions and answers."""


@dataclass(frozen=True, kw_only=True)
class RowVerdict:
    """The verdict on one row."""

    outcome: RowOutcome
    id: RowProblem | None = None
    why: str = ""
    """Completes the sentence "the row …"."""
    messages: tuple[Message, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    """Text of each round: (prompt, answer)."""
    unwritten: tuple[str, ...] = ()
    """Roles whose messages the template does not write; MaxText itself drops roles outside ROLES."""


def judge_row(row: object, rules: RowRules) -> RowVerdict:
    """Return what MaxText would do with the row if it were the only one."""
    if not isinstance(row, dict):
        return RowVerdict(outcome="refused", id="data-columns", why="is not an object of columns")
    missing = [column for column in rules.columns if column not in row]
    if missing:
        columns = ", ".join(map(str, row)) or "none"
        return RowVerdict(
            outcome="refused", id="data-columns", why=f"has no column {', '.join(missing)}; its columns are {columns}"
        )
    if why := _no_feature(row, rules):
        return RowVerdict(outcome="refused", id="data-conversation", why=why)
    messages = _messages(row, rules)
    if isinstance(messages, RowVerdict):
        return messages
    return _conversation(messages, rules)


def _no_feature(row: Mapping[str, Any], rules: RowRules) -> str:
    """Return why Grain's pipeline cannot take a column; empty if it can. source: maxtext@0.2.5
    input_pipeline/input_pipeline_utils.py [KeepFeatures, NormalizeFeatures].
    """
    for column in rules.columns if rules.grain else ():
        value = row[column]
        if isinstance(value, list) and value and isinstance(value[0], int) and not isinstance(value[0], bool):
            return f"holds in {column} numbers, not text"
        if rules.grain == "arrayrecord" and not isinstance(value, str):
            return f"holds in {column} no text"
    return ""


def unfit(row: object, rules: RowRules) -> str:
    """Return why the row is not prepared: MaxText fails on it, or trains only a part of it; empty if neither."""
    verdict = judge_row(row, rules)
    if verdict.outcome == "refused" or not isinstance(row, dict):
        return verdict.why
    return _surplus(row, rules) or next(filter(None, map(_lost, verdict.messages)), "")


def _surplus(row: Mapping[str, Any], rules: RowRules) -> str:
    """Return why MaxText drops messages of a column that has more than the first one; empty if it does not."""
    lengths = {column: len(row[column]) for column in rules.columns if isinstance(row[column], list)}
    return "" if len(set(lengths.values())) < 2 else f"has different numbers of messages in {' and '.join(lengths)}"


def _lost(message: Message) -> str:
    """Return why MaxText does not train on the message unchanged; empty if it does."""
    role, content = message["role"], message["content"]
    if role not in ROLES:
        return f"has a message of the role {role!r}, which MaxText drops; it takes {', '.join(ROLES)}"
    if not isinstance(content, str):
        return f"has a message of the role {role} that is {'null' if content is None else 'not text'}"
    if not content.strip() and role != "system":  # some files have an empty system message on purpose
        return f"has an empty message of the role {role}"
    return ""


def uneven(rows: Sequence[object], rules: RowRules) -> bool:
    """Return whether messages differ in their keys, so that datasets does not read the column as messages."""
    if "question" in rules.columns:
        return False
    columns = [{_message_keys(one) for one in _each(rows, column) if one is not None} for column in rules.columns]
    return all(len(shapes) > 1 for shapes in columns)


def stretched(first: Sequence[object], cast: Sequence[object], rules: RowRules) -> bool:
    """Return whether messages have keys that the first rows lack. datasets fills in keys that later messages lack."""
    if "question" in rules.columns or not first or not cast:
        return False
    return any(_all_keys(cast, column) - _all_keys(first, column) for column in rules.columns)


def added_columns(first: Sequence[object], cast: Sequence[object]) -> tuple[str, ...]:
    """Return the columns that the first rows lack: datasets stops with CastError, although it fills missing ones."""
    if not first:
        return ()
    return tuple(sorted(_columns_of_rows(cast) - _columns_of_rows(first)))


def _columns_of_rows(rows: Sequence[object]) -> frozenset[str]:
    return frozenset[str]().union(*(row for row in rows if isinstance(row, dict)))


def _all_keys(rows: Sequence[object], column: str) -> frozenset[str]:
    return frozenset[str]().union(*(message for message in _each(rows, column) if isinstance(message, dict)))


def _message_keys(message: object) -> frozenset[str]:
    return frozenset(message) if isinstance(message, dict) else frozenset()


def _each(rows: Sequence[object], column: str) -> Iterator[object]:
    return chain.from_iterable(
        found for row in rows if isinstance(row, dict) and isinstance(found := row.get(column), list)
    )


def _messages(row: Mapping[str, Any], rules: RowRules) -> list[Message] | RowVerdict:
    values = [row[column] for column in rules.columns]
    if set(rules.columns) == {"question", "answer"}:
        return _messages_of_question(row["question"], row["answer"], rules)
    if rules.texts and len(values) == 2:
        return _messages_of_question(row["prompt"], row["completion"], rules)
    for column, value in zip(rules.columns, values, strict=True):
        if why := "" if rules.grain and value == [] else _no_conversation(value):
            return RowVerdict(outcome="refused", id="data-conversation", why=f"holds in {column} {why}")
    if len(values) == 1:
        return list(values[0])
    return _combined(values, rules.columns)


def _no_conversation(value: object) -> str:
    """Return why the value is not a list of messages; empty if it is."""
    match value:
        case None:
            return "null, not a list of messages"
        case str() as text:
            of_json = text.lstrip().startswith(("[", "{"))
            return (
                "a conversation as a JSON string" if of_json else "text, not a list of messages with role and content"
            )
        case []:
            return "an empty list"
        case list():
            return next(filter(None, map(_no_message, value)), "")
        case _:
            return "a value that is not a list of messages"


def _no_message(message: object) -> str:
    if not isinstance(message, dict):
        return f"{'null' if message is None else 'a value'} instead of a message"
    if {"from", "value"} <= set(message) and not set(message) >= MESSAGE:
        return "messages with from and value; MaxText needs role and content"
    missing = sorted(MESSAGE - set(message))
    return f"a message without {' and '.join(missing)}" if missing else ""


def _combined(values: Sequence[list[Message]], columns: Sequence[str]) -> list[Message] | RowVerdict:
    """Return one message of each column in turn, as many as the first column has."""
    first, *others = values
    short = next((column for column, one in zip(columns[1:], others, strict=True) if len(one) < len(first)), None)
    if short:
        return RowVerdict(
            outcome="refused", id="data-conversation", why=f"has more messages in {columns[0]} than in {short}"
        )
    return [column[at] for at in range(len(first)) for column in values]


def _messages_of_question(question: Any, answer: Any, rules: RowRules) -> list[Message] | RowVerdict:
    if rules.formatted and not (isinstance(question, str) and isinstance(answer, str)):
        return RowVerdict(outcome="refused", id="data-conversation", why="has a question or an answer that is not text")
    if rules.separator and answer.count(rules.separator) > 1:
        return RowVerdict(
            outcome="refused", id="data-conversation", why=f"has {rules.separator!r} more than once in its answer"
        )
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _conversation(messages: list[Message], rules: RowRules) -> RowVerdict:
    if why := _wrong_order(messages):
        return RowVerdict(outcome="refused", id="data-roles", why=why)
    if why := _no_answer(messages):
        missing: RowOutcome = "nothing" if rules.grain else "refused"
        return RowVerdict(outcome=missing, id="data-roles", why=why, messages=tuple(messages))
    rounds = list(_rounds(messages))
    if rules.render is None:
        return RowVerdict(outcome="trained", messages=tuple(messages))
    try:
        parts = [_prompt_and_answer(one, rules.render) for one in rounds]
    except Exception as failed:
        return RowVerdict(
            outcome="refused",
            id="data-template",
            why=f"stops the template: {failed}",
        )
    if not all(prompt for prompt, _answer in parts):
        return RowVerdict(
            outcome="refused",
            id="data-template",
            why="makes the template write a different prompt with the answer than without it",
        )
    learnt = "".join(answer if rules.completion_only else prompt + answer for prompt, answer in parts)
    written = "".join(prompt + answer for prompt, answer in parts)
    unwritten = tuple(_message_role(one) for one in messages if not _is_written(one, written))
    outcome: RowOutcome = "trained" if learnt else "nothing"
    return RowVerdict(outcome=outcome, messages=tuple(messages), parts=tuple(parts), unwritten=unwritten)


def _message_role(message: Message) -> str:
    return str(message["role"])


def _wrong_order(messages: Sequence[Message]) -> str:
    """Return why MaxText fails at this order of roles; empty if it does not."""
    since: list[str] = []
    for at, role in enumerate(map(_message_role, messages)):
        if role == "system" and at:
            return f"has a system message at position {at}; MaxText takes one at the beginning only"
        if role == "assistant" and not since:
            return "has an answer without a message before it"
        since = [] if role == "assistant" else [*since, role] if role in ROLES else since
    return ""


def _no_answer(messages: Sequence[Message]) -> str:
    """Return that no message is an answer: Hugging Face's pipeline stops, and Grain's trains nothing."""
    if "assistant" in map(_message_role, messages):
        return ""
    found = ", ".join(dict.fromkeys(map(_message_role, messages))) or "none"
    return f"has no message of the role assistant; its roles are {found}"


def _rounds(messages: Sequence[Message]) -> Iterator[list[dict[str, Any]]]:
    """Yield each answer with the messages before it; MaxText formats each of these alone."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if _message_role(message) in ROLES:
            found.append(dict(message))
        if _message_role(message) == "assistant":
            yield found
            found = []


def _prompt_and_answer(one: list[dict[str, Any]], render: RenderMessages) -> tuple[str, str]:
    """Return (prompt, answer): the answer starts where the text with it differs from the text without."""
    whole = render(one, False)  # noqa: FBT003 - as in Jinja: with the answer
    begun = render(one[:-1], True)  # noqa: FBT003
    same = next(
        (at for at, (a, b) in enumerate(zip(whole, begun, strict=False)) if a != b), min(len(whole), len(begun))
    )
    return whole[:same], whole[same:]


def _is_written(message: Message, written: str) -> bool:
    content = message["content"]
    return not isinstance(content, str) or "".join(content.split()) in "".join(written.split())
