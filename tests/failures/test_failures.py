"""xsft reports every failure that docs/failures.toml promises."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.checks.factory import FLAGSHIP, GOOD, spec
from tests.checks.test_checkpoint_weights import full
from tests.failures.cases import CASES, said_of
from xsft.catalog.arrays import ArrayLayout

TABLE = tomllib.loads((Path(__file__).parents[2] / "docs" / "failures.toml").read_text(encoding="utf-8"))
ROWS: dict[str, dict[str, Any]] = {f"{kind}.{name}": row for kind, rows in TABLE.items() for name, row in rows.items()}
REPORTED = {name: row["id"] for name, row in ROWS.items() if "id" in row}


@pytest.mark.parametrize("name", REPORTED)
def test_a_documented_mistake_is_reported_under_its_id(name: str, tmp_path: Path) -> None:
    assert REPORTED[name] in CASES[name](tmp_path)


def test_every_failure_has_a_case_or_is_marked_missed_or_after_start() -> None:
    assert set(REPORTED) == set(CASES)
    assert {row["outcome"] for row in ROWS.values() if "id" not in row} <= {"missed", "after start"}
    assert all({"found", "cost"} <= set(row) for row in ROWS.values() if "id" in row)


def test_good_workloads_report_no_documented_mistake() -> None:
    assert said_of(spec(GOOD), full("qwen3-0.6b")) == set()
    other = said_of(spec(FLAGSHIP), full("deepseek3-671b", layout=ArrayLayout(axis=0)))
    assert other & set(REPORTED.values()) == set()
