from __future__ import annotations

from typing import Any

import pytest

from tests.submissions import planned
from xsft.launch.submission import Submission
from xsft.runs.waiting import WaitEnd, WaitResult
from xsft.stages.cpu_job import record_ended


@pytest.mark.parametrize("outcome", ["timeout", "lost", "unreachable"])
def test_no_end_is_recorded_of_a_job_that_may_still_run(outcome: WaitEnd) -> None:
    done = Submission(plan=planned(), action="created", jobset="j", uid="u", record=None, steps=None, problems=())
    unsure: Any = outcome
    waited = WaitResult(outcome=unsure, row=None, seconds=1.0)
    assert record_ended(done, waited) is waited
