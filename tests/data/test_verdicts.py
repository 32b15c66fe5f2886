"""Problems of sampled rows; tests/contract/test_rules.py compares the rules with MaxText's."""

from __future__ import annotations

from typing import Any

import pytest

from xsft.data.facts import DataFacts, KeyRule, SampledRow
from xsft.data.verdicts import row_problems
from xsft.trainer.chat import renderer
from xsft.workers.row_rules import RowRules

USER, ASSISTANT = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}
GOOD = [USER, ASSISTANT]
BEGUN = "{% if add_generation_prompt %}<assistant>{% endif %}"
PLAIN = f"{{% for m in messages %}}<{{{{ m.role }}}}>{{{{ m.content }}}}{{% endfor %}}{BEGUN}"
DEAF = PLAIN.replace("{{ m.content }}", "{% if m.role != 'user' %}{{ m.content }}{% endif %}")
MUTE = PLAIN.replace("{{ m.content }}", "{% if m.role != 'assistant' %}{{ m.content }}{% endif %}")
STRICT = PLAIN.replace("{{ m.content }}", "{{ m.content.upper() }}")


def found(
    rows: list[Any], *, template: str = PLAIN, columns: tuple[str, ...] = ("messages",), **rules: Any
) -> list[str]:
    sampled = tuple(SampledRow(at=f"row {at}", row=row) for at, row in enumerate(rows))
    made = RowRules(columns=columns, render=renderer(template, {}), **rules)
    return ids(DataFacts(rows=sampled), made)


def ids(facts: DataFacts, rules: RowRules) -> list[str]:
    return [f"{p.id} {p.severity}" for p in row_problems(facts, rules, where="data.hf_train_files")]


ROWS: dict[str, tuple[list[Any], list[str]]] = {
    "good": ([GOOD] * 3, []),
    "from and value": ([[{"from": "human", "value": "hi"}]], ["data-conversation error"]),
    "JSON in a string": (['[{"role": "user"}]'], ["data-conversation error"]),
    "null": ([GOOD, None], ["data-conversation error"]),
    "not a list": ([3], ["data-conversation error"]),
    "an empty list": ([[]], ["data-conversation error"]),
    "a null message": ([[None]], ["data-conversation error"]),
    "uneven keys": ([GOOD, [{**USER, "name": "x"}, ASSISTANT]], ["data-conversation error"]),
    "no answer": ([[USER]], ["data-roles error"]),
    "no question": ([[ASSISTANT]], ["data-roles error"]),
    "a late system message": ([[*GOOD, {"role": "system", "content": "x"}]], ["data-roles error"]),
    "another role": ([[{"role": "tool", "content": "x"}, *GOOD]], ["data-role-dropped warning"]),
    "a null content": ([[{"role": "user", "content": None}, ASSISTANT]], ["data-null warning"]),
    "parts": ([[{"role": "user", "content": [{"type": "text", "text": "hi"}]}, ASSISTANT]], ["data-parts warning"]),
    "an empty answer": (
        [GOOD, [USER, {"role": "assistant", "content": ""}]],
        ["data-no-target warning", "data-empty-turn warning"],
    ),
    "an empty system message": ([[{"role": "system", "content": ""}, *GOOD]], []),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_of_messages_give_the_expected_problems(case: str) -> None:
    rows, ids = ROWS[case]
    assert found([{"messages": messages} for messages in rows]) == ids


NAMED = [{**USER, "name": "x"}, ASSISTANT]
TOLD: dict[str, tuple[list[Any], list[KeyRule], list[str]]] = {
    "after a blank line": ([GOOD, NAMED], ["told", "told"], []),
    "another file lacks a key": ([[{**one, "name": "x"} for one in GOOD], GOOD], ["alike", "cast"], []),
    "another file has more keys": ([GOOD, NAMED], ["alike", "cast"], ["data-conversation error"]),
}


@pytest.mark.parametrize("case", TOLD)
def test_keys_are_derived_from_the_first_rows(case: str) -> None:
    rows, keys, expected = TOLD[case]
    sampled = tuple(SampledRow(at="", row={"messages": row}, keys=of) for row, of in zip(rows, keys, strict=True))
    assert ids(DataFacts(rows=sampled), RowRules(columns=("messages",), render=renderer(PLAIN, {}))) == expected


def test_column_missing_in_the_first_file_is_an_error_if_all_rows_were_read() -> None:
    first, later = {"messages": GOOD}, {"messages": GOOD, "id": 1}
    rules = RowRules(columns=("messages",), render=renderer(PLAIN, {}))
    for rows, found in (((first, later), ["data-columns error"]), ((later, first), [])):
        keys: tuple[KeyRule, KeyRule] = ("alike", "cast")
        sampled = tuple(SampledRow(at="", row=row, keys=of) for row, of in zip(rows, keys, strict=True))
        assert ids(DataFacts(rows=sampled, counted=2), rules) == found
        assert ids(DataFacts(rows=sampled), rules) == [], "a sample does not show every column of the first file"


def test_rows_without_the_column_are_an_error() -> None:
    assert found([{"text": "a"}]) == ["data-columns error"]
    assert found([3]) == ["data-columns error"]


def test_rows_are_judged_by_the_chat_template() -> None:
    rows = [{"messages": GOOD}] * 3
    assert found(rows, template=DEAF) == ["data-role-dropped warning"]
    assert found(rows, template=MUTE) == ["data-no-target error", "data-role-dropped warning"]
    assert found([{"messages": [{"role": "user", "content": None}, ASSISTANT]}], template=STRICT) == [
        "data-template error"
    ]


def test_prompts_and_completions_must_be_lists_of_messages() -> None:
    columns = ("prompt", "completion")
    assert found([{"prompt": [USER], "completion": [ASSISTANT]}], columns=columns) == []
    assert found([{"prompt": "hi", "completion": "yes"}], columns=columns) == ["data-conversation error"]
    assert found([{"prompt": GOOD, "completion": [ASSISTANT]}], columns=columns) == ["data-conversation error"]


def test_questions_and_answers_must_be_texts() -> None:
    columns = ("question", "answer")
    assert found([{"question": "hi", "answer": 3}], columns=columns) == []
    assert found([{"question": "hi", "answer": None}], columns=columns) == ["data-no-target error", "data-null warning"]
    assert found([{"question": "hi", "answer": None}], columns=columns, formatted=True) == ["data-conversation error"]
    twice = [{"question": "hi", "answer": "a #### b #### c"}]
    assert found(twice, columns=columns, formatted=True, separator="####") == ["data-conversation error"]


def test_problem_names_the_first_bad_row() -> None:
    rows = tuple(SampledRow(at=f"row {at} of a.jsonl", row={"messages": GOOD if at < 5 else "x"}) for at in range(7))
    (problem,) = row_problems(DataFacts(rows=rows), RowRules(columns=("messages",)), where="data.hf_train_files")
    assert problem.message.startswith("2 of 7 checked rows stop MaxText: row 5 of a.jsonl holds in messages text")
