"""Which problems a workload may accept, and which are errors at submission."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import get_args

import pytest

from tests.checks.idscan import PACKAGE
from xsft.acceptance import LATE, accept_problems, for_submission
from xsft.problems import ProblemKind, error, note, warning

ERROR = error("bad", "train.steps", "it cannot be", "Change it.")
WARNING = warning("doubtful", "train.steps", "it may hurt", "Look at it.")
NOTE = note("known", "train.steps", "it is so")


def test_a_warning_that_is_accepted_becomes_a_note_with_the_reason() -> None:
    (told,) = accept_problems((WARNING,), {"doubtful": "seen it"})
    assert (told.id, told.severity, told.where) == ("doubtful", "note", "train.steps")
    assert "seen it" in told.message


def test_an_error_cannot_be_accepted() -> None:
    found = accept_problems((ERROR, NOTE), {"bad": "I insist", "known": "yes"})
    assert found[:2] == (ERROR, NOTE)
    assert [(p.id, p.severity, p.where) for p in found[2:]] == [("checks-not-accepted", "warning", "checks.bad")]
    assert "none of the errors that can be" in found[2].message


def test_accepting_nothing_leaves_all_problems_unchanged() -> None:
    assert accept_problems((ERROR, WARNING, NOTE), {}) == (ERROR, WARNING, NOTE)


def test_accepting_an_id_that_no_check_reports_is_reported() -> None:
    found = accept_problems((WARNING,), {"doubtfull": "a typo"})
    assert [(p.id, p.severity, p.where) for p in found] == [
        ("doubtful", "warning", "train.steps"),
        ("checks-unused", "warning", "checks.doubtfull"),
    ]


def made_ids(tree: ast.AST, *makers: str) -> Iterator[str]:
    """Yield the ids that the calls of these functions write out; of `error`, those of errors that may be accepted."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        maker = ast.unparse(call.func)
        disputable = [ast.unparse(one.value) for one in call.keywords] == ["'disputable'"]
        if maker in makers and (maker != "error" or disputable):
            yield ast.literal_eval(call.args[0])


@pytest.fixture(scope="module")
def late_modules() -> Mapping[str, ast.AST]:
    """The modules that make late problems."""
    sources = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    return {name: ast.parse(text) for name, text in sources.items() if "import late_" in text or ", late_" in text}


def test_an_entry_for_a_late_problem_is_not_reported_as_unused(late_modules: Mapping[str, ast.AST]) -> None:
    made = {name for tree in late_modules.values() for name in made_ids(tree, "late_warning", "late_error")}
    assert made == LATE
    assert accept_problems((), dict.fromkeys(made, "known")) == ()


def test_late_modules_mark_every_problem_that_may_be_accepted(late_modules: Mapping[str, ast.AST]) -> None:
    """A type checker refuses an id of a late problem that is not in LateId; this finds one that is not marked."""
    found = {name: [*made_ids(tree, "warning", "error")] for name, tree in late_modules.items()}
    assert {name: ids for name, ids in found.items() if ids} == {"effects/local/convert.py": ["failed-after-save"]}


@pytest.mark.parametrize("kind", get_args(ProblemKind))
def test_submit_accepts_every_problem_that_a_plan_calls_accepted(kind: ProblemKind) -> None:
    """Plan and submit decide by the same rule; where a plan says `accepted`, submit does not refuse."""
    (found, *complaints) = accept_problems(
        (warning("a", "x", "could not look", "Log in.", kind=kind),), {"a": "it is there"}
    )
    (asked,) = for_submission((found,))
    assert (
        ("accepted: it is there" in found.message) == (asked.severity == "note") == (kind not in ("absent", "unmade"))
    )
    assert [p.id for p in complaints] == (["checks-not-accepted"] if kind in ("absent", "unmade") else [])
    assert all("does not exist yet" in p.message for p in complaints)


@pytest.mark.parametrize("kind", ["absent", "unmade", "unread", "open"])
def test_submission_turns_an_unaccepted_warning_of_an_open_kind_into_an_error(kind: ProblemKind) -> None:
    assert [p.severity for p in for_submission((warning("a", "x", "open", "Close it.", kind=kind),))] == ["error"]
    assert for_submission((ERROR, WARNING, NOTE)) == (ERROR, WARNING, NOTE)


@pytest.mark.parametrize("kind", get_args(ProblemKind))
def test_an_error_can_be_accepted_only_if_it_is_disputable(kind: ProblemKind) -> None:
    (found, *_) = accept_problems((error("a", "x", "wrong", "Mend it.", kind=kind),), {"a": "it is right"})
    assert (found.severity == "note") == (kind == "disputable")
