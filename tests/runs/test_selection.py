from __future__ import annotations

from pathlib import Path

import pytest

from tests.localruns import local_plan
from xsft.base.errors import UsageError
from xsft.runs.selection import runs_at


def test_a_plan_without_a_place_has_no_runs_to_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the workload has no place"):
        runs_at(local_plan(tmp_path))
