"""Runs by their names."""

from __future__ import annotations

import pytest

from tests.observations import NOW, observed, runs_read
from xsft.base.errors import UsageError
from xsft.cluster.observation import Observation, Recorded
from xsft.runs.classify import classify
from xsft.runs.lookup import answer_of, one_run


def test_runs_without_jobsets_are_distinguished_without_none() -> None:
    observation = observed("gemma", cluster="lab")
    gone = Observation(run_name="gemma", target="xpk", observed_at=NOW, cluster="east")
    ended_here = Observation(
        run_name="gemma",
        target="xpk",
        observed_at=NOW,
        cluster="west",
        record=Recorded(outcome="created", jobset="gemma-2"),
    )
    answer = answer_of(runs_read((observation, gone, ended_here)), classify=classify, now=NOW)
    with pytest.raises(UsageError, match="3 runs are named 'gemma'") as several:
        one_run("gemma", answer)
    assert "None" not in several.value.message
    assert "its JobSet of east, which is gone" in several.value.message
    assert "JobSet gemma-2 of west, which is gone" in several.value.message
