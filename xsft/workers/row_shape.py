"""The shape of a row: its columns, their types and the order of roles. What MaxText makes of it is asked of MaxText
(`workers.read_examples`). Pure.

`xsft data prepare` loads this file in MaxText's environment, so it imports only the standard library. source:
maxtext@0.2.5 input_pipeline/input_pipeline_utils.py [is_conversational, combine_columns, apply_chat_template].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

RowProblem = Literal["data-columns", "data-conversation", "data-roles", "data-template"]
ROLES = ("system", "user", "assistant")
ALPACA = frozenset({"instruction", "output"})


@dataclass(frozen=True, kw_only=True)
class ShapeFault:
    id: RowProblem
    why: str
    """Completes "the row …"."""


def shape_fault(row: object, columns: Sequence[str], *, texts: bool = False) -> ShapeFault | None:
    """Return why MaxText cannot read the row; None if its shape is right.

    `texts`: whether prompt and completion are texts, for Grain's pipeline, not lists of messages.
    """
    if not isinstance(row, dict):
        return ShapeFault(id="data-columns", why="is not an object of columns")
    missing = [column for column in columns if column not in row]
    if missing:
        return ShapeFault(
            id="data-columns", why=f"has no column {', '.join(missing)}; its columns are {_columns_text(row)}"
        )
    if is_question(columns, texts=texts):
        return None
    fault = next(filter(None, (_column_fault(row, column) for column in columns)), "") or _short_column(row, columns)
    if fault:
        return ShapeFault(id="data-conversation", why=fault)
    fault = _role_fault([str(message["role"]) for message in messages_of(row, columns)])
    if fault:
        return ShapeFault(id="data-roles", why=fault)
    return None


def is_question(columns: Sequence[str], *, texts: bool) -> bool:
    """Return whether the columns hold a question and its answer, not conversations."""
    return "question" in columns or (texts and len(columns) == 2)


def messages_of(row: Mapping[str, Any], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return one message of each column in turn, as many as the first column has, as MaxText joins them."""
    return list(chain.from_iterable(zip(*(row[column] for column in columns), strict=False)))


def _columns_text(row: Mapping[str, Any]) -> str:
    names = ", ".join(map(str, row)) or "none"
    if set(row) >= ALPACA:
        return f"{names}, those of Alpaca"
    if any(isinstance(column, list) and any(map(_is_sharegpt, column)) for column in row.values()):
        return f"{names}, with conversations of ShareGPT (from and value)"
    return names


def _is_sharegpt(message: object) -> bool:
    return isinstance(message, dict) and {"from", "value"} <= set(message) and "content" not in message


def _column_fault(row: Mapping[str, Any], column: str) -> str:
    fault = _conversation_fault(row[column])
    return f"holds in {column} {fault}" if fault else ""


def _short_column(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Return why MaxText stops at a column with fewer messages than the first one; empty if none has."""
    short = next((column for column in columns if len(row[column]) < len(row[columns[0]])), "")
    return f"has more messages in {columns[0]} than in {short}" if short else ""


def _conversation_fault(column: object) -> str:
    """Return why the value is not a list of messages; empty if it is."""
    match column:
        case None:
            return "null, not a list of messages"
        case str() if column.lstrip().startswith(("[", "{")):
            return "a conversation as a JSON string"
        case str():
            return "text, not a list of messages with role and content"
        case []:
            return "an empty list"
        case list():
            return next(filter(None, map(_message_fault, column)), "")
        case _:
            return "a value that is not a list of messages"


def _message_fault(message: object) -> str:
    if message is None:
        return "null instead of a message"
    if not isinstance(message, dict):
        return "a value instead of a message"
    if _is_sharegpt(message):
        return "messages of ShareGPT (from and value); MaxText needs role and content"
    missing = sorted({"role", "content"} - set(message))
    return f"a message without {' and '.join(missing)}" if missing else ""


def _role_fault(roles: Sequence[str]) -> str:
    """Return why MaxText fails at this order of roles; empty if it does not."""
    if "system" in roles[1:]:
        return f"has a system message at position {roles.index('system', 1)}; MaxText takes one at the beginning only"
    if "assistant" not in roles:
        return f"has no message of the role assistant; its roles are {', '.join(dict.fromkeys(roles))}"
    read = [role for role in roles if role in ROLES]
    if ("assistant", "assistant") in pairwise(("assistant", *read)):
        return "has an answer without a message before it"
    return ""
