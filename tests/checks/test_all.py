"""Rules for all checks together: the order of problems, and no duplicates."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from tests.checks.factory import FLAGSHIP, GOOD, Tree, run_of, spec
from xsft.checks.facts import Facts
from xsft.checks.subjects import FIRST_SHOWN, Check, check_run, subjects
from xsft.spec.base import Keys
from xsft.spec.resolve import Run


def test_problems_are_sorted_by_severity_without_duplicates() -> None:
    problems = check_run(
        run_of(spec(train={"steps": 10**6}, image={"ref": "registry/image"}, restarts={"max": 1})), Facts()
    )
    order = [("error", "warning", "note").index(p.severity) for p in problems]
    assert order == sorted(order)
    assert {0, 1, 2} == set(order)
    assert len(problems) == len(set(problems))


def test_every_subject_of_the_list_has_a_check() -> None:
    shown = [check.__module__.rpartition(".")[2] for check in subjects()]
    assert shown[: len(FIRST_SHOWN)] == [*FIRST_SHOWN]
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("subject", subjects(), ids=lambda subject: str(subject.__module__))
def test_every_check_takes_run_keys_and_facts(subject: Check) -> None:
    """mypy does not see the modules that are found in the folder."""
    hints = get_type_hints(subject)
    assert [*hints] == ["run", "keys", "facts", "return"]
    assert [hints["run"], hints["keys"], hints["facts"]] == [Run, Keys, Facts]


@pytest.mark.parametrize(
    ("base", "more"),
    [(GOOD, set()), (FLAGSHIP, {"param-scan-axis", "repeated-per-round"})],
    ids=["one slice", "two slices"],
)
def test_good_workloads_have_no_other_problems(base: Tree, more: set[str]) -> None:
    ids = {problem.id for problem in check_run(run_of(spec(base)), Facts())}
    assert ids == {"checkpoint-unread", "fit-known", "resume-data-restarts", "special-tokens", *more}
