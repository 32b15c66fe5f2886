"""The serve stage of `xsft run` on a cluster: created once, and done when the pod of the server is ready."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.contract.commandline import Machine, machine
from tests.fakes.clusters import standing_in
from tests.servers import IMAGE, NAME, STORY, WEIGHTS
from tests.stages.test_walk import Recorded
from xsft.base.errors import Refused, RunFailed
from xsft.base.stage import StageFound
from xsft.planning import api as workloads
from xsft.stages.cluster_job import ClusterCall, SharedIntent
from xsft.stages.serve_on_cluster import ServeOnCluster
from xsft.stages.walk import StageReport, WalkSettings, walk
from xsft.verbs.terminal import terminal

pytestmark = pytest.mark.loopback

POST = r"^POST /apis/apps/v1/namespaces/\S+/deployments\?fieldValidation=Strict&fieldManager"
TRAINING = NAME.removesuffix("-serve")


class Exported(Recorded):
    """An export stage with a result on gs://."""

    def find(self) -> StageFound:
        return StageFound(state=self.state, why="", result=WEIGHTS if self.state == "done" else None)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    with (
        standing_in(tmp_path) as api,
        machine(tmp_path, environments=tmp_path, api=api) as equipment,
        patch.dict(os.environ, equipment.env, clear=True),
        chdir(tmp_path),
    ):
        yield equipment


def stage(here: Machine, *, exported: Exported | None = None, image: str = IMAGE) -> ServeOnCluster:
    file = here.workload(STORY, stages={"export": {}, "serve": {"image": image}})
    loaded = workloads.load(str(file))
    call = ClusterCall(ask=None, poll_s=0.05, listener=terminal())
    export = exported or Exported(name="export", state="done")
    return ServeOnCluster(SharedIntent(loaded, known=None), exported=export, training=TRAINING, call=call)


def walked(serve_on_cluster: ServeOnCluster, *, waits: bool = False) -> StageReport:
    (report,) = walk((serve_on_cluster,), WalkSettings(left_s=lambda: 10.0, waits=waits)).reports
    return report


def answer(here: Machine) -> None:
    """Report the pod as ready, as the kubelet does once /health answers."""
    deployments = here.api.standin.objects.of("apps/deployments")
    deployments[here.api.namespace, NAME]["status"] = {"readyReplicas": 1}


def test_the_serve_stage_adopts_its_server_and_is_done_when_health_answers(here: Machine) -> None:
    first, second = walked(stage(here)), walked(stage(here))
    assert [(stage_end.action, stage_end.state) for stage_end in (first, second)] == [
        ("created", "running"),
        ("adopted", "running"),
    ]
    assert first.run_name == NAME
    answer(here)
    done = walked(stage(here), waits=True)
    assert (done.action, done.state, done.why) == ("done", "done", "/health answers")
    assert done.result == f"http://{NAME}.{here.api.namespace}.svc.cluster.local:8000/v1"
    assert len(here.api.server.asked(POST)) == 1


@pytest.mark.early
def test_the_serve_stage_without_an_export_is_missing_and_creates_nothing(here: Machine) -> None:
    serve_on_cluster = stage(here, exported=Exported(name="export"))
    assert (serve_on_cluster.find().state, serve_on_cluster.find().why) == ("missing", "there is no export to serve")
    assert serve_on_cluster.plan().manifest is not None
    assert here.api.server.asked(POST) == []


def test_another_image_is_refused_while_the_server_runs(here: Machine) -> None:
    walked(stage(here))
    other = walk(
        (stage(here, image=IMAGE.replace("0" * 64, "1" * 64)),), WalkSettings(left_s=lambda: None, waits=False)
    )
    assert isinstance(other.failed, Refused)
    assert other.failed.problem_id == "server-differs"


def test_a_server_that_is_deleted_while_it_is_waited_for_ends_the_walk(here: Machine) -> None:
    serve_on_cluster = stage(here)
    serve_on_cluster.perform(lambda _line: None)
    here.api.standin.objects.of("apps/deployments").clear()
    with pytest.raises(RunFailed) as failed:
        serve_on_cluster.watch(10.0)
    assert failed.value.problem_id == "server-failed"
