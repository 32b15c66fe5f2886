"""Check conversations of several rounds, each of which MaxText renders separately. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.acceptance import LateProblem
from xsft.base.problems import Problem
from xsft.catalog.datasets import dataset
from xsft.checks.facts import Facts
from xsft.checks.special_tokens import reads_texts, special_tokens_of
from xsft.data.facts import DataFacts
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

REPEATED = LateProblem(id="repeated-per-round")
"""Found once the rows can be read, which may be after a plan."""
ROUNDS = "messages"
"""The column whose rows may hold several rounds."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check for a head of the template that MaxText repeats, in data that is known to have several rounds in a row."""
    if run.tokenizer is None or not reads_texts(keys) or facts.tokenizer_problem:
        return
    tokens = special_tokens_of(run, keys, facts.tokenizer)
    if not tokens.repeats or run.spec.data.columns != [ROUNDS]:
        return
    if not _has_several_rounds(run, facts.data):
        return
    message = (
        "MaxText renders each round of a conversation separately, so this tokenizer's template writes "
        f"{tokens.repeats!r} before every round. At inference, only the first round has it."
    )
    fix = (
        "Train on single rounds, and accept this under `checks:`. Or begin every conversation with a system message, "
        "which may be empty, and let data.chat_template write the head only for it."
    )
    yield REPEATED.warning("data.columns", message, fix)


def _has_several_rounds(run: Run, rows: DataFacts | None) -> bool:
    if rows is not None:
        return any(_questions(sampled.row) > 1 for sampled in rows.rows)
    catalogued = dataset(run.spec.data.hf_path)
    return catalogued is not None and catalogued.several_rounds


def _questions(row: object) -> int:
    """Return the number of user messages in a row; 0 if it holds no conversation, which another check reports."""
    messages = row.get(ROUNDS) if isinstance(row, dict) else None
    if not isinstance(messages, list):
        return 0
    return sum(isinstance(message, dict) and message.get("role") == "user" for message in messages)
