"""Which rows MaxText can train on; tests/contract/test_prepare.py asks MaxText, and runs the worker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.dataset.rules import Rules, judge
from xsft.effects.local.prepare_worker import RULES, from_sharegpt, held_out

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}

BAD_MESSAGES: dict[str, Any] = {
    "it has no turns": [],
    "it is not a list of turns": "text",
    "turn 0: it lacks role or content": [{"from": "human", "value": "q"}],
    "turn 0: the text is null": [{"role": "user", "content": None}, ANSWER],
    "turn 1: the text is empty": [USER, {"role": "assistant", "content": " \n"}],
    "turn 0: the text is a list": [{"role": "user", "content": [{"text": "q"}]}, ANSWER],
    "turn 1: the role 'tool' is not one of system, user, assistant": [USER, {"role": "tool", "content": "t"}, ANSWER],
    "turn 1: a system turn must be the first": [USER, SYSTEM, ANSWER],
    "turn 0: an answer without a user turn before it": [ANSWER],
    "turn 2: an answer without a user turn before it": [USER, ANSWER, ANSWER],
    "no turn is the assistant's": [SYSTEM, USER],
}


@pytest.mark.parametrize("fault", BAD_MESSAGES)
def test_conversations_that_cannot_be_trained_on(fault: str) -> None:
    assert RULES["messages"]({"messages": BAD_MESSAGES[fault]}) == fault


@pytest.mark.parametrize("turns", [[USER, ANSWER], [SYSTEM, USER, ANSWER], [USER, USER, ANSWER, USER, ANSWER, USER]])
def test_conversations_that_can(turns: list[Any]) -> None:
    assert RULES["messages"]({"messages": turns}) is None


def test_questions_and_answers_are_texts() -> None:
    assert RULES["texts"]({"question": "q", "answer": "a"}) is None
    assert RULES["texts"]({"question": "q", "answer": ""}) == "answer: the text is empty"
    assert RULES["texts"]({"question": 3, "answer": "a"}) == "question: the text is a int"


def test_prompts_and_completions_are_rounds() -> None:
    assert RULES["rounds"]({"prompt": [USER], "completion": [ANSWER]}) is None
    uneven = "prompt and completion are not lists of turns of one length"
    assert RULES["rounds"]({"prompt": [USER, USER], "completion": [ANSWER]}) == uneven
    assert RULES["rounds"]({"prompt": "q", "completion": "a"}) == uneven


def test_turns_of_sharegpt_get_their_roles() -> None:
    turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
    assert from_sharegpt(turns) == [SYSTEM, USER, ANSWER]
    assert from_sharegpt([{"from": "tool", "value": "t"}]) == [{"role": "tool", "content": "t"}]
    for other in ("text", None, [USER]):
        assert from_sharegpt(other) is other


def test_equal_rows_lie_in_one_split_and_the_share_is_kept() -> None:
    rows = [{"question": str(n), "answer": "a"} for n in range(4000)]
    taken = [held_out(row, 0.1) for row in rows]
    assert taken == [held_out(dict(reversed(row.items())), 0.1) for row in rows]
    assert 320 < sum(taken) < 480


TEXTS = st.one_of(st.none(), st.sampled_from(["", " ", "text"]))
TURNS = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXTS})


@given(st.lists(TURNS, max_size=4))
def test_what_is_prepared_is_what_the_check_of_rows_trains(turns: list[dict[str, Any]]) -> None:
    """Preparing refuses more: a message that MaxText would leave out, or that holds no text."""
    if RULES["messages"]({"messages": turns}) is None:
        assert judge({"messages": turns}, Rules(columns=("messages",))).outcome == "trained"
