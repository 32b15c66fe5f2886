from __future__ import annotations

from typing import Any

import pytest

from tests.tools.fit_rows import row_run
from xsft.catalog.data import toml
from xsft.fit.trainer_step import estimate

ROWS = [row for row in toml("fit.toml")["rows"] if row.get("step", "sft") == "sft"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_estimate_is_within_a_factor_of_2_of_the_compiler(row: dict[str, Any]) -> None:
    path = (row.get("sum") or row["peak"]) / toml("fit.toml")["limit_gib"]
    assert 0.5 < estimate(row_run(row)) / path < 2.0


def test_dropless_experts_are_estimated_for_the_worst_case() -> None:
    """34.65 GiB by the compiler, aot_fit.md §0.1, "Dropped tokens"."""
    row = next(row for row in ROWS if row["id"] == "C'")
    dropless = {**row, "keys": {**row["keys"], "ragged_buffer_factor": -1}}
    assert estimate(row_run(dropless)) * toml("fit.toml")["limit_gib"] == pytest.approx(34.65, rel=0.1)
