"""Rows that MaxText can train on; tests/contract/test_prepare.py asks MaxText, and runs the worker."""

from __future__ import annotations

from typing import Any

import pytest

from xsft.workers.prepare_rows import from_sharegpt, held_out, rule_of

SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}

lists, rounds = rule_of("lists", ["messages"]), rule_of("lists", ["prompt", "completion"])
texts = rule_of("texts", ["question", "answer"])

BAD_MESSAGES: dict[str, Any] = {
    "holds in messages an empty list": [],
    "holds in messages text, not a list of messages": "text",
    "holds in messages messages of ShareGPT (from and value)": [{"from": "human", "value": "q"}],
    "has a message of the role user that is null": [{"role": "user", "content": None}, ANSWER],
    "has an empty message of the role assistant": [USER, {"role": "assistant", "content": " \n"}],
    "has a message of the role user that is not text": [{"role": "user", "content": [{"text": "q"}]}, ANSWER],
    "has a message of the role 'tool', which MaxText drops": [USER, {"role": "tool", "content": "t"}, ANSWER],
    "has a system message at position 1": [USER, SYSTEM, ANSWER],
    "has an answer without a message before it": [ANSWER],
    "has no message of the role assistant": [SYSTEM, USER],
}


@pytest.mark.parametrize("fault", BAD_MESSAGES)
def test_conversations_that_cannot_be_trained_on_are_named_with_their_fault(fault: str) -> None:
    assert lists({"messages": BAD_MESSAGES[fault]}).startswith(fault)


@pytest.mark.parametrize(
    "turns",
    [
        [USER, ANSWER],
        [SYSTEM, USER, ANSWER],
        [{**SYSTEM, "content": ""}, USER, ANSWER],
        [USER, USER, ANSWER, USER, ANSWER, USER],
    ],
)
def test_conversations_that_can_be_trained_on_have_no_fault(turns: list[Any]) -> None:
    assert lists({"messages": turns}) == ""


def test_questions_and_answers_must_be_nonempty_texts() -> None:
    assert texts({"question": "q", "answer": "a"}) == ""
    assert texts({"question": "q", "answer": ""}) == "has an empty message of the role assistant"
    assert texts({"question": 3, "answer": "a"}) == "has a message of the role user that is not text"
    assert rule_of("texts", ["prompt", "completion"])({"prompt": "q", "completion": "a"}) == "", "as Grain reads them"


def test_prompts_and_completions_must_be_message_lists_of_equal_length() -> None:
    assert rounds({"prompt": [USER], "completion": [ANSWER]}) == ""
    assert "more messages in prompt" in rounds({"prompt": [USER, USER], "completion": [ANSWER]})
    assert "different numbers of messages" in rounds({"prompt": [USER], "completion": [ANSWER, ANSWER]})
    assert "text, not a list" in rounds({"prompt": "q", "completion": "a"})


def test_rows_for_a_formatting_function_have_no_fault() -> None:
    assert rule_of("none", ["messages"])({"messages": 3}) == ""


def test_turns_of_sharegpt_become_messages_with_roles() -> None:
    turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
    assert from_sharegpt(turns) == [SYSTEM, USER, ANSWER]
    assert from_sharegpt([{"from": "tool", "value": "t"}]) == [{"role": "tool", "content": "t"}]
    for other in ("text", None, [USER]):
        assert from_sharegpt(other) is other


def test_held_out_puts_equal_rows_in_one_split_and_keeps_the_share() -> None:
    rows = [{"question": str(n), "answer": "a"} for n in range(4000)]
    held_out_rows = [held_out(row, 0.1) for row in rows]
    assert held_out_rows == [held_out(dict(reversed(row.items())), 0.1) for row in rows]
    assert 320 < sum(held_out_rows) < 480
