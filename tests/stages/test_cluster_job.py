from __future__ import annotations

from typing import Any, cast

import pytest

from tests.cpujobs import planned
from xsft.base.reporting import Reporter
from xsft.base.stage import StageFound
from xsft.launch.submission import Submission
from xsft.runs.waiting import WaitResult
from xsft.stages.cluster_job import ClusterCall, StageOnCluster


class UnfinishedJob:
    """A job without a result, whose end must not be recorded."""

    name = "convert"

    def look(self) -> str:
        return "plan"

    def found(self, plan: str) -> StageFound:
        return StageFound(state="missing", why=plan)

    def recorded_name(self, plan: str) -> str:
        raise AssertionError(plan)


@pytest.mark.parametrize("outcome", ["timeout", "lost", "unreachable"])
def test_no_end_is_recorded_of_a_job_that_may_still_run(outcome: Any) -> None:
    call = ClusterCall(ask=None, poll_s=0.0, listener=Reporter())
    stage: StageOnCluster[str] = StageOnCluster(cast("Any", UnfinishedJob()), training="t", call=call)
    begun = Submission(plan=planned(), action="created", jobset="j", uid="u", record=None, steps=None, problems=())
    waited = WaitResult(outcome=outcome, row=None, seconds=1.0)
    assert stage.note_end(begun, waited)[0] == waited
