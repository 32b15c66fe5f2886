"""Which problems a workload may accept, and which are errors at submission."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest

from tests.checks.idscan import PACKAGE, late_calls, late_problems
from xsft.base.acceptance import WITHDRAWN, accept_problems, for_submission
from xsft.base.problems import ProblemKind, error, note, warning
from xsft.checks.data import LATE_IDS
from xsft.checks.subjects import late_ids

ERROR = error("bad", "train.steps", "it cannot be", "Change it.")
WARNING = warning("doubtful", "train.steps", "it may hurt", "Look at it.")
NOTE = note("known", "train.steps", "it is so")


def test_a_warning_that_is_accepted_becomes_a_note_with_the_reason() -> None:
    (reported,) = accept_problems((WARNING,), {"doubtful": "seen it"})
    assert (reported.id, reported.severity, reported.where) == ("doubtful", "note", "train.steps")
    assert "seen it" in reported.message


def test_an_error_cannot_be_accepted() -> None:
    problems = accept_problems((ERROR, NOTE), {"bad": "I insist", "known": "yes"})
    assert problems[:2] == (ERROR, NOTE)
    assert [(p.id, p.severity, p.where) for p in problems[2:]] == [("checks-not-accepted", "warning", "checks.bad")]
    assert "none of the errors that can be" in problems[2].message


def test_accepting_nothing_leaves_all_problems_unchanged() -> None:
    assert accept_problems((ERROR, WARNING, NOTE), {}) == (ERROR, WARNING, NOTE)


def test_accepting_an_id_that_no_check_reports_is_reported() -> None:
    problems = accept_problems((WARNING,), {"doubtfull": "a typo"})
    assert [(p.id, p.severity, p.where) for p in problems] == [
        ("doubtful", "warning", "train.steps"),
        ("checks-unused", "warning", "checks.doubtfull"),
    ]


@pytest.fixture(scope="module")
def late_modules() -> Mapping[str, ast.AST]:
    """The modules that declare or make late problems."""
    texts = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    constants = re.compile(rf"\b(?:LateProblem|{'|'.join(late_problems())})\b")
    return {name: ast.parse(text) for name, text in texts.items() if constants.search(text)}


def test_every_declared_late_problem_is_made_and_not_reported_as_unused(late_modules: Mapping[str, ast.AST]) -> None:
    names = {name for tree in late_modules.values() for name, _method in late_calls(tree)}
    assert names == set(late_problems().values())
    assert late_ids() == names | LATE_IDS  # the second are what MaxText's pipeline says of rows (data/answers.py)
    assert accept_problems((), dict.fromkeys(late_ids(), "known"), late=late_ids) == ()
    (unused,) = accept_problems((), {"jobset-olt": "a typo"}, late=late_ids)
    assert unused.id == "checks-unused"


def test_late_problems_are_constants_of_modules_of_checks(late_modules: Mapping[str, ast.AST]) -> None:
    """A plan looks for them there; a type checker refuses any other way to make one."""
    nodes = [node for tree in late_modules.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    declarations = [node for node in nodes if ast.unparse(node.func) == "LateProblem"]
    assert len(declarations) == len(late_problems()) == len(set(late_problems().values()))


def test_late_modules_mark_every_problem_that_may_be_accepted(late_modules: Mapping[str, ast.AST]) -> None:
    ids_by_module = {name: [*plain_ids(tree)] for name, tree in late_modules.items() if any(late_calls(tree))}
    assert {name: ids for name, ids in ids_by_module.items() if ids} == {"stages/convert.py": ["failed-after-save"]}


def plain_ids(tree: ast.AST) -> Iterator[str]:
    """Yield the ids of the problems that may be accepted and are made without a declaration."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        maker = ast.unparse(call.func)
        disputable = [ast.unparse(keyword.value) for keyword in call.keywords] == ["'disputable'"]
        if maker == "warning" or (maker == "error" and disputable):
            yield ast.literal_eval(call.args[0])


@pytest.mark.parametrize("kind", get_args(ProblemKind))
def test_submit_accepts_every_problem_that_a_plan_calls_accepted(kind: ProblemKind) -> None:
    """Plan and submit decide by the same rule; where a plan says `accepted`, submit does not refuse."""
    (found, *complaints) = accept_problems(
        (warning("a", "x", "could not look", "Log in.", kind=kind),), {"a": "it is there"}
    )
    (reported,) = for_submission((found,))
    assert (
        ("accepted: it is there" in found.message)
        == (reported.severity == "note")
        == (kind not in ("absent", "unmade"))
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


def test_a_withdrawn_id_is_a_note() -> None:
    checks = (Path(__file__).parents[2] / "docs" / "checks.toml").read_text(encoding="utf-8")
    assert tomllib.loads(checks)["section"][-1]["ids"].keys() == WITHDRAWN
    for name in WITHDRAWN:
        (problem,) = accept_problems((), {name: "as before"})
        assert (problem.severity, problem.where) == ("note", f"checks.{name}")
