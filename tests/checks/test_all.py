"""Rules for all checks together: their order, and each problem once."""

from __future__ import annotations

from tests.checks.factory import run_of, spec
from xsft.checks import check
from xsft.facts import Facts


def test_errors_come_first_and_nothing_twice() -> None:
    found = check(run_of(spec(train={"steps": 10**6}, image={"ref": "registry/image"}, restarts={"max": 1})), Facts())
    order = [("error", "warning", "note").index(p.severity) for p in found]
    assert order == sorted(order)
    assert {0, 1, 2} == set(order)
    assert len(found) == len(set(found))
