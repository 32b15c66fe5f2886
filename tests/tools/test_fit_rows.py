from __future__ import annotations

import pytest

from tests.tools.fit_rows import difference, wanted
from xsft.catalog.data import toml
from xsft.catalog.fit import known_verdict, row_keys
from xsft.fit.verdict import CompiledStep, DoesNotFit, Fits
from xsft.trainer.trainer import trainer_of

ROWS = {row["id"]: row for row in toml("fit.toml")["rows"]}


def test_each_row_is_compiled_with_exactly_its_keys() -> None:
    runs = {name: run for name, run, row in wanted([]) if row is not None}
    assert runs.keys() == ROWS.keys()
    for name, run in runs.items():
        row, keys = ROWS[name], trainer_of(run).trainer_keys(run)
        assert row_keys(row).items() <= keys.items()
        compiler_verdict = known_verdict(model=row["model"], tpu_type=row["tpu"], num_slices=row["slices"], keys=keys)
        assert compiler_verdict is not None
        assert compiler_verdict.id == name


def entry(verdict: Fits | DoesNotFit) -> CompiledStep:
    return CompiledStep(verdict=verdict, tokens=1024, versions={}, made_at="")


@pytest.mark.parametrize(
    ("peak", "total", "message"),
    [(26.85, 30.22, ""), (26.86, 30.215, ""), (26.9, 30.22, "peak 26.9 instead of 26.85")],
)
def test_figures_are_compared_to_a_hundredth(peak: float, total: float, message: str) -> None:
    compiled_step = entry(Fits(peak_gib=peak, sum_gib=total, limit_gib=31.24, by=None))
    assert difference(compiled_step, ROWS["A"]) == message


def test_a_row_with_another_verdict_is_reported_as_wrong() -> None:
    refused = entry(DoesNotFit(needed_gib=33.5, limit_gib=31.24, told_by="compiler"))
    assert difference(refused, ROWS["A"]) == "no, not fits"
    assert difference(refused, None) == "no, not fits"
    assert difference(refused, ROWS["qwen3-14b-v6e-8"]) == ""
