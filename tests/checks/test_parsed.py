"""Errors of MaxText's own parser become problems; errors that a check reports are not repeated."""

from __future__ import annotations

from tests.checks.factory import run_of, spec
from xsft.base.problems import Problem, error
from xsft.checks.parsed import ParserAnswer, check_parser_answer, question_of

REFUSAL = (
    "ValidationError: 1 validation error for MaxTextConfig\nadam_b1\n  Input should be a valid number\n"
    "    For further information visit https://errors.pydantic.dev/2.12/v/float_parsing"
)
WORKLOAD = spec(overrides={"maxtext": {"adam_b1": "many"}})


def said(answer: ParserAnswer, *reported: Problem) -> list[Problem]:
    return list(check_parser_answer(run_of(WORKLOAD), answer, found=reported))


def test_parser_error_names_its_key() -> None:
    (problem,) = said(ParserAnswer(refused=REFUSAL))
    assert (problem.id, problem.severity, problem.where) == ("maxtext-refuses", "error", "overrides.maxtext.adam_b1")
    assert "adam_b1 Input should be a valid number" in problem.message
    assert "pydantic.dev" not in problem.message


def test_parser_error_that_a_check_reports_is_not_repeated() -> None:
    parser_problem = error("maxtext-value", "overrides.maxtext.adam_b1", "adam_b1 takes a number.", "Give one.")
    other = error("steps-beyond-data", "train.steps", "500 steps need 4,000 rows.", "Use 10.")
    assert said(ParserAnswer(refused=REFUSAL), parser_problem) == []
    assert len(said(ParserAnswer(refused=REFUSAL), other)) == 1
    assert said(ParserAnswer(refused="AssertionError"), other) == [], "MaxText stops at the first thing it finds"


def test_unavailable_parser_gives_a_note() -> None:
    (problem,) = said(ParserAnswer(unanswered="its environment is not built"))
    assert (problem.id, problem.severity) == ("maxtext-not-asked", "note")
    assert problem.fix.startswith("Unknown:")


def test_keys_that_the_parser_ignores_are_warnings() -> None:
    (problem,) = said(ParserAnswer(ignored=("Ignoring the key foo",)))
    assert (problem.id, problem.severity) == ("maxtext-ignores", "warning")


def test_parser_question_does_not_depend_on_the_dated_run_name() -> None:
    parser_questions = [question_of(run_of(WORKLOAD), ("python3", "-m", "m", f"run_name=a-{day}")) for day in (1, 2)]
    assert parser_questions[0] == parser_questions[1]
    assert parser_questions[0].slices == (("compile_topology", "v6e-8"), ("compile_topology_num_slices", "1"))
