from __future__ import annotations

import pytest

from tests.tools.fit_rows import row_run
from xsft.catalog.data import toml
from xsft.trainers.fit_step import estimate

ROWS = [row for row in toml("fit.toml")["rows"] if row.get("step", "sft") == "sft"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_the_estimate_is_of_the_size_of_the_compilers_figure(row: dict[str, float]) -> None:
    told = (row.get("sum") or row["peak"]) / toml("fit.toml")["limit_gib"]
    assert 0.5 < estimate(row_run(row)) / told < 2.0
