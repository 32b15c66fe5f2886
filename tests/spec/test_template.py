"""Names and contents of template files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.problems import Problem
from xsft.spec.template import QUESTION_KEYS, Template, read_template, template_name_problem


@pytest.mark.parametrize("name", ["chat.jinja", "../templates/chat.j2", "/abs/chat.txt", "a b/é.json"])
def test_template_names_accept_jinja_and_json_files(name: str) -> None:
    assert template_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gs://my-bucket/chat.jinja", "chat-template-file"),
        ("xsft://tiny/chat.jinja", "chat-template-file"),
        ("chat.yaml", "chat-template-file"),
        ("chat", "chat-template-file"),
        (".jinja", "chat-template-file"),
        ("-", "chat-template-file"),
        ("{% for m in messages %}", "jinja-inline"),
        ("{{ messages }}.jinja", "jinja-inline"),
        ("two\nlines.jinja", "jinja-inline"),
    ],
)
def test_template_names_refuse_addresses_and_other_file_types(name: str, expected: str) -> None:
    problem = template_name_problem(name)
    assert problem is not None
    assert (problem.id, problem.where) == (expected, "data.chat_template")
    assert "\n" not in problem.message


def test_template_name_problem_escapes_terminal_codes() -> None:
    problem = template_name_problem("\x1b[31mred")
    assert problem is not None
    assert "\x1b" not in problem.message


@given(st.text())
def test_jinja_template_is_the_text_of_its_file(text: str) -> None:
    assert read_template("chat.jinja", text) == Template(jinja=text)


def test_json_template_holds_jinja_question_texts_or_both() -> None:
    texts = dict.fromkeys(QUESTION_KEYS, "é\n")
    assert read_template("a.json", json.dumps(texts)) == Template(questions=texts)
    assert read_template("a.json", json.dumps({"chat_template": "{{ x }}"})) == Template(jinja="{{ x }}")
    assert read_template("a.json", json.dumps({"chat_template": "x", **texts})) == Template(jinja="x", questions=texts)


@pytest.mark.parametrize(
    "text",
    [
        "{% for m in messages %}",
        "{",
        "[]",
        "{}",
        "null",
        '"text"',
        '{"chat_template": ""}',
        '{"chat_template": [{"name": "default", "template": "x"}]}',
        '{"PROMPT_TEMPLATE": 5}',
        '{"PROMPT_TEMPLATE": null}',
        '{"chat_template": "{{ x }}", "bos_token": "<s>"}',
        '{"SYSTEM_PROMPT": "x", "TEMPLATE": "y"}',
        '{"PROMPT_TEMPLATE": "half a pair: \\ud83d {question}"}',
        "[" * 100_000,
    ],
)
def test_json_template_with_other_content_is_refused(text: str) -> None:
    problem = read_template("a.json", text)
    assert isinstance(problem, Problem)
    assert (problem.id, problem.where) == ("chat-template-file", "data.chat_template")


def test_problem_of_wrong_template_file_hides_its_values() -> None:
    """It may be another file than was meant: a key, say."""
    value = "a" * 12 + "Secret"
    problem = read_template("a.json", json.dumps({"private_key": value}))
    assert isinstance(problem, Problem)
    assert "private_key" in problem.message
    assert value not in problem.message + problem.fix
