from __future__ import annotations

from typing import Any

import pytest

from tests.checks.factory import DROP, FLAGSHIP, run_of, spec
from xsft.catalog.data import toml
from xsft.checks.step_time import analytic_verdict
from xsft.fit.verdict import DoesNotFit, Invalid


def test_state_that_exceeds_the_chips_does_not_fit() -> None:
    verdict = analytic_verdict(run_of(spec(model={"name": "llama3.1-70b", "tokenizer": DROP})))
    assert isinstance(verdict, DoesNotFit)
    assert (verdict.told_by, verdict.limit_gib, verdict.needed_gib > 100) == ("bound", 31.24, True)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"lora": {"rank": 16, "alpha": 32}}, "train.weight_dtype"),
        ({"parallelism": {"ici": {"fsdp": 3}}}, "parallelism.ici"),
    ],
)
def test_run_that_cannot_be_built_is_invalid(changes: dict[str, Any], where: str) -> None:
    verdict = analytic_verdict(run_of(spec(**changes)))
    assert isinstance(verdict, Invalid)
    assert verdict.because.where == where


def test_expert_axis_that_does_not_divide_is_invalid() -> None:
    axes = {"ici": {"fsdp": 1, "expert": 256}, "dcn": {"fsdp": 1, "expert": 2}}
    verdict = analytic_verdict(run_of(spec({**FLAGSHIP, "parallelism": axes})))
    assert isinstance(verdict, Invalid)
    assert verdict.because.where == "parallelism"
    assert verdict.because.fix == "Use a divisor of 256."


def test_arithmetic_never_decides_against_the_compiler() -> None:
    assert analytic_verdict(run_of(spec(FLAGSHIP))) is None
    assert analytic_verdict(run_of(spec())) is None
    assert toml("fit.toml")["limit_gib"] == 31.24
