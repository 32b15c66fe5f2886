"""A job on a cluster whose xsft, or whose pod, is killed: each next call continues, and all say the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest

from tests.checkpoints import small_files
from tests.contract.commandline import Machine
from tests.contract.test_run_cluster import (
    CONVERT,
    EVALUATE,
    EVALUATION,
    EXPORT,
    NAME,
    STORY,
    TPU,
    converted,
    exported,
    measured,
)
from tests.killing import Killed, dying
from xsft.base.reporting import Reporter, hear_nothing
from xsft.planning import api
from xsft.stages.cluster_job import ClusterCall, StageOnCluster
from xsft.stages.stage_list import stages_of

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("without_hub"), pytest.mark.standin_only("walked")]
PODS: dict[str, Callable[..., object]] = {CONVERT: converted, EVALUATION: measured, EXPORT: exported}
"""JobSet -> what its pod writes before it ends."""


def stage_on(here: Machine, jobset: str) -> StageOnCluster[Any]:
    file = here.workload(STORY, stages={"evaluate": EVALUATE, "export": {}}, tpu=TPU)
    call = ClusterCall(ask=None, poll_s=0.1, listener=Reporter())
    (stage,) = (one for one in stages_of(api.load(file), run_name=NAME, call=call) if one.run_name == jobset)
    assert isinstance(stage, StageOnCluster)
    return stage


def said(here: Machine, jobset: str) -> tuple[str, str | None, str | None]:
    """What `xsft run`, `xsft status` and `xsft why` would say of it; None without a row."""
    stage = stage_on(here, jobset)
    found = stage.job.found(stage.job.look()).state
    rows = json.loads(here.xsft("status", jobset, "--json").stdout).get("runs") or [{"state": None}]
    why = json.loads(here.xsft("why", jobset, "--json").stdout)
    return found, rows[0]["state"], why.get("state")


@pytest.fixture
def here(here: Machine) -> Iterator[Machine]:
    """A machine whose bucket holds the training's last checkpoint."""
    step = f"runs/{NAME}/checkpoints/1000"
    here.bucket.objects[f"{step}/commit_success.txt"] = b""
    for name, content in small_files("gemma2-2b").items():
        here.bucket.objects[f"{step}/model_params/{name}"] = content
    with patch.dict(os.environ, here.env, clear=True), chdir(here.folder):
        yield here


def kill_before_each_write(here: Machine, jobset: str, call: Callable[[StageOnCluster[Any]], object]) -> int:
    """Return how many calls were killed, each one write later than the one before, until one completed."""
    for writes in count():
        with suppress(Killed), dying(after=writes):
            call(stage_on(here, jobset))
            return writes
        found, *shown = said(here, jobset)
        is_done = found == "done"
        assert [state == "succeeded" for state in shown] == [is_done, is_done], (writes, found, shown)
    raise AssertionError


@pytest.mark.parametrize("jobset", PODS)
def test_killed_before_any_write_the_next_call_continues_and_all_say_so(here: Machine, jobset: str) -> None:
    assert kill_before_each_write(here, jobset, lambda stage: stage.perform(hear_nothing)) > 2
    assert [one["metadata"]["name"] for one in here.jobsets] == [jobset]
    PODS[jobset](here, jobset)
    assert kill_before_each_write(here, jobset, lambda stage: stage.find()) > 0
    assert said(here, jobset) == ("done", "succeeded", "succeeded")
    assert stage_on(here, jobset).perform(hear_nothing).action == "done"


@pytest.mark.parametrize("jobset", PODS)
def test_a_pod_that_is_killed_after_its_result_was_complete_has_done_its_job(here: Machine, jobset: str) -> None:
    """`xsft status` was the first to see the JobSet fail, and recorded that."""
    stage_on(here, jobset).perform(hear_nothing)
    PODS[jobset](here, jobset, end="Failed")
    assert said(here, jobset) == ("done", "failed", "failed")
    assert stage_on(here, jobset).find().state == "done"
    assert said(here, jobset) == ("done", "succeeded", "succeeded")
