from __future__ import annotations

from pathlib import Path

import pytest

from tests.localruns import local_plan
from xsft.base.errors import UsageError
from xsft.base.reporting import Reporter
from xsft.launch.wait_for_end import after_plan
from xsft.runs.waiting import WaitLimits


def test_a_plan_without_a_place_has_no_runs_to_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the workload has no place"):
        after_plan(local_plan(tmp_path), patience=WaitLimits(timeout_s=0, poll_s=1), log=None, listener=Reporter())
