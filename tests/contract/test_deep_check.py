"""`xsft check --deep`: the installed MaxText's own parser has the last word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.factory import FLAGSHIP, GOOD, spec
from xsft.checks.facts import Facts
from xsft.planning.installed_maxtext import ask_maxtext
from xsft.planning.planner import make_intent
from xsft.spec.model import WorkloadSpec

pytestmark = pytest.mark.maxtext

OLD = {"image": {"maxtext": "0.2.3"}}
WORKLOADS: dict[str, WorkloadSpec] = {
    "good": spec(GOOD),
    "flagship": spec(FLAGSHIP),
    "keys that exclude each other": spec(overrides={"maxtext": {"num_moe_token_chunks": 2}}),
    "another release": spec(**OLD),
}


def test_check_deep_reports_what_maxtexts_parser_refuses(maxtext_python: Path) -> None:
    """One process answers all."""
    problems = ask_maxtext([make_intent(workload, Facts()) for workload in WORKLOADS.values()])
    ids = dict(zip(WORKLOADS, ([problem.id for problem in reported] for reported in problems), strict=True))
    assert ids == {
        "good": [],
        "flagship": [],
        "keys that exclude each other": ["maxtext-refuses"],
        "another release": ["maxtext-not-asked"],
    }
    (excluded,) = problems[2]
    assert excluded.where == "overrides.maxtext.num_moe_token_chunks"
    assert "requires use_ring_of_experts=True" in excluded.message
