"""Rules for all checks together: their order, which may be silenced, and which are errors at submission."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType
from typing import get_args

import pytest

from tests.checks.factory import run_of, spec
from xsft.checks import (
    admission,
    check,
    controllers,
    cpu_quota,
    for_submission,
    image_contents,
    namespace_quota,
    node_pools,
    parsed,
    pod_identity,
    quota,
    quota_in_use,
    silence,
    topology,
)
from xsft.effects.cluster import dry_run
from xsft.facts import Facts
from xsft.problems import ProblemKind, error, note, warning

ERROR = error("bad", "train.steps", "it cannot be", "Change it.")
WARNING = warning("doubtful", "train.steps", "it may hurt", "Look at it.")
NOTE = note("known", "train.steps", "it is so")


def test_errors_come_first_and_nothing_twice() -> None:
    found = check(run_of(spec(train={"steps": 10**6}, image={"ref": "registry/image"}, restarts={"max": 1})), Facts())
    order = [("error", "warning", "note").index(p.severity) for p in found]
    assert order == sorted(order)
    assert {0, 1, 2} == set(order)
    assert len(found) == len(set(found))


def test_a_warning_that_is_accepted_becomes_a_note_with_the_reason() -> None:
    (told,) = silence((WARNING,), {"doubtful": "seen it"})
    assert (told.id, told.severity, told.where) == ("doubtful", "note", "train.steps")
    assert "seen it" in told.message


def test_an_error_cannot_be_accepted() -> None:
    found = silence((ERROR, NOTE), {"bad": "I insist", "known": "yes"})
    assert found[:2] == (ERROR, NOTE)
    assert [(p.id, p.severity, p.where) for p in found[2:]] == [("checks-not-accepted", "warning", "checks.bad")]


def test_accepting_one_leaves_the_others() -> None:
    assert silence((ERROR, WARNING, NOTE), {}) == (ERROR, WARNING, NOTE)


def test_accepting_an_id_that_no_check_reports_is_reported() -> None:
    found = silence((WARNING,), {"doubtfull": "a typo"})
    assert [(p.id, p.severity, p.where) for p in found] == [
        ("doubtful", "warning", "train.steps"),
        ("checks-unused", "warning", "checks.doubtfull"),
    ]


FOUND_LATE = (
    admission,
    controllers,
    cpu_quota,
    dry_run,
    image_contents,
    namespace_quota,
    node_pools,
    parsed,
    pod_identity,
    quota,
    quota_in_use,
    topology,
)


def acceptable_ids(module: ModuleType) -> Iterator[str]:
    """Yield the ids of the warnings and disputable errors that the module writes out."""
    with open(str(module.__file__), encoding="utf-8") as source:
        tree = ast.parse(source.read())
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="warning"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Call(func=ast.Name(id="error"), args=[ast.Constant(value=str(name)), *_], keywords=[kind]):
                if ast.unparse(kind.value) == "'disputable'":
                    yield name


@pytest.mark.parametrize("module", FOUND_LATE, ids=lambda module: str(module.__name__))
def test_a_plan_calls_no_entry_unused_that_a_submission_may_need(module: ModuleType) -> None:
    assert silence((), dict.fromkeys(acceptable_ids(module), "known")) == ()


@pytest.mark.parametrize("kind", get_args(ProblemKind))
def test_what_a_plan_calls_accepted_is_accepted_by_submit(kind: ProblemKind) -> None:
    """Plan and submit decide by the same rule; where a plan says `accepted`, submit does not refuse."""
    (found, *complaints) = silence((warning("a", "x", "could not look", "Log in.", kind=kind),), {"a": "it is there"})
    (asked,) = for_submission((found,))
    assert (
        ("accepted: it is there" in found.message) == (asked.severity == "note") == (kind not in ("absent", "unmade"))
    )
    assert [p.id for p in complaints] == (["checks-not-accepted"] if kind in ("absent", "unmade") else [])


@pytest.mark.parametrize("kind", ["absent", "unmade", "unread", "open"])
def test_a_submission_is_stricter_about_what_is_not_accepted(kind: ProblemKind) -> None:
    assert [p.severity for p in for_submission((warning("a", "x", "open", "Close it.", kind=kind),))] == ["error"]
    assert for_submission((ERROR, WARNING, NOTE)) == (ERROR, WARNING, NOTE)


@pytest.mark.parametrize("kind", get_args(ProblemKind))
def test_of_errors_only_a_disputable_one_can_be_accepted(kind: ProblemKind) -> None:
    (found, *_) = silence((error("a", "x", "wrong", "Mend it.", kind=kind),), {"a": "it is right"})
    assert (found.severity == "note") == (kind == "disputable")
