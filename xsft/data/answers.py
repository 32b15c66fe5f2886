"""Each answer of the rows beside the text that is trained for it: what nothing reads, what the template drops or adds.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Sized

from msgspec import Struct

from xsft.base.problems import Problem, warning
from xsft.data.passes import PassRead

TRAINED_COLUMNS = frozenset(
    {"tools", "functions", "tool_calls", "thinking", "reasoning", "reasoning_content", "system", "system_prompt",
     "context", "input"}
)  # fmt: skip
"""Columns that other trainers put into the prompt or the answer; others (`id`, `source`) describe the row."""
SHOWN = 60
"""Characters of a text in a message."""


class AnswerDifference(Struct, frozen=True, kw_only=True):
    row: int
    answer: str
    trained: str


def check_answers(sample: PassRead, *, special: Sequence[str]) -> Iterator[Problem]:
    """Yield one problem for each class of difference. `special`: texts of the special tokens in the sample."""
    count = len(sample.given)
    yield from _check_unread_keys(sample)
    for column, rows in sample.columns.items():
        if column in TRAINED_COLUMNS:
            message = f"MaxText does not read the column {column}, which has a value {_share(rows, len(sample.rows))}."
            fix = "Write its text into the messages, or accept this under `checks:` if it need not be trained."
            yield warning("data-key-unread", "data.columns", message, fix)
    pairs = [
        AnswerDifference(row=row, answer=answer, trained=trained)
        for row, given_row in enumerate(sample.given)
        for answer, trained in given_row.answers
    ]
    dropped = [pair for pair in pairs if _squeezed(pair.answer) not in _squeezed(pair.trained)]
    if dropped:
        share = _share({pair.row for pair in dropped}, count)
        message = f"The template drops text of the answer {share}. {_beside(dropped[0])}"
        fix = "Let data.chat_template write the whole content, so that the model is trained on it."
        yield warning("data-text-dropped", "data.chat_template", message, fix)
    added = [pair for pair in pairs if pair not in dropped and added_text(pair.answer, pair.trained, special)]
    if added:
        share = _share({pair.row for pair in added}, count)
        message = f"The template adds text to the trained answer {share}. {_beside(added[0])}"
        fix = (
            "If the model shall answer in this form, accept this under `checks:`; else set a data.chat_template that "
            "writes the content alone."
        )
        yield warning("data-text-added", "data.chat_template", message, fix)


def added_text(answer: str, trained: str, special: Sequence[str]) -> str:
    """Return the text that is trained before the answer, without special tokens and the header of a message: words
    between a special token and another one, or the end of the line.
    """
    before = trained.partition(answer.strip())[0]
    tokens = "|".join(re.escape(token) for token in sorted(special, key=len, reverse=True) if token.strip())
    if tokens:
        before = re.sub(rf"(?:{tokens})\w*(?=$|\n|{tokens})", "", before)
    return before.strip()


def _check_unread_keys(sample: PassRead) -> Iterator[Problem]:
    rows: dict[str, dict[int, str]] = {}
    for row, given_row in enumerate(sample.given):
        for message in given_row.messages:
            for key, text in message.unread.items():
                # A single word (`gpt-4`, an id) describes the message; text and structures would be trained.
                if " " in text.strip() or text.startswith(("[", "{")):
                    rows.setdefault(key, {}).setdefault(row, text)
    for key, texts in rows.items():
        row, text = next(iter(texts.items()))
        share = _share(texts, len(sample.given))
        message_text = (
            f"Nothing reads the key {key} of messages {share}: it is not trained. Row {row} has {_short(text)}."
        )
        fix = f"Let data.chat_template write message.{key}, or write its text into the content."
        yield warning("data-key-unread", "data.chat_template", message_text, fix)


def _share(rows: Sized, count: int) -> str:
    return f"in {len(rows):,} of {count:,} rows ({len(rows) / max(count, 1):.0%})"


def _beside(pair: AnswerDifference) -> str:
    return f"Row {pair.row} has {_short(pair.answer)} and trains {_short(pair.trained)}."


def _short(text: str) -> str:
    if len(text) > SHOWN:
        return repr(f"{text[:SHOWN]}…")
    return repr(text)


def _squeezed(text: str) -> str:
    return "".join(text.split())
