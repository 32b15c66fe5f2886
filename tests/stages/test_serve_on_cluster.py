"""`xsft serve FILE` for a workload of a cluster: what is shown is created once; waiting ends as it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.commandline import Machine, machine
from tests.documents import read_document
from tests.fakes.clusters import ClusterApi
from tests.servers import IMAGE, NAME, STORY, WEIGHTS

pytestmark = pytest.mark.loopback

POST = r"^POST /apis/apps/v1/namespaces/\S+/deployments\?fieldValidation=Strict&fieldManager"
WAIT = ("--timeout", "1s", "--poll", "1s", "--yes")


@pytest.fixture
def here(tmp_path: Path, cluster_api: ClusterApi) -> Iterator[Machine]:
    with machine(tmp_path, environments=tmp_path, api=cluster_api) as equipment:
        yield equipment


def served(here: Machine, *options: str, **serve: Any) -> tuple[int, dict[str, Any]]:
    file = here.workload(STORY, stages={"serve": {"image": IMAGE, **serve}})
    done = here.xsft("serve", file, "--json", "--weights", WEIGHTS, *options)
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


@pytest.mark.early
def test_a_dry_run_shows_the_objects_and_creates_nothing(here: Machine) -> None:
    status, shown = served(here, "--dry-run")
    read_document("serve", shown)
    assert (status, shown["action"], shown["run_name"]) == (0, "planned", NAME)
    assert [kube_object["kind"] for kube_object in shown["objects"]] == ["Deployment", "Service", "PodDisruptionBudget"]
    assert here.api.server.asked(POST) == []


def test_serve_creates_the_shown_object_and_exits_7_while_the_server_starts(here: Machine) -> None:
    _, shown = served(here, "--dry-run")
    status, timed_out = served(here, *WAIT)
    assert (status, timed_out["exit_status"]) == (7, 7)
    (create,) = here.api.server.asked(POST)
    assert create.body == shown["objects"][0]
    assert served(here, *WAIT)[0] == 7
    assert len(here.api.server.asked(POST)) == 1


def test_other_settings_are_refused_while_the_server_runs(here: Machine) -> None:
    served(here, *WAIT)
    status, refused = served(here, *WAIT, max_model_len=64)
    assert (status, [p["id"] for p in refused["problems"]]) == (4, ["server-differs"])
    assert len(here.api.server.asked(POST)) == 1


@pytest.mark.standin_only("no-request")
def test_a_dry_run_without_json_prints_objects_for_kubectl(here: Machine) -> None:
    file = here.workload(STORY, stages={"serve": {"image": IMAGE}})
    done = here.xsft("serve", file, "--dry-run", "--weights", WEIGHTS)
    assert done.returncode == 0, done.stderr
    assert "machine     ct6e-standard-1t: 1 of tpu-v6e-slice; outside the queue's quota" in done.stdout
    text = done.stdout.partition("## objects\n")[2].partition("\n## audit")[0]
    (deployment, *_) = yaml.safe_load_all(text)
    (copier,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert copier["command"][2].startswith('"""Copy a model')


@pytest.mark.standin_only("no-request")
def test_serve_without_weights_and_without_an_export_exits_4(here: Machine) -> None:
    file = here.workload(STORY, stages={"serve": {"image": IMAGE}})
    done = here.xsft("serve", file, "--json", "--yes")
    (problem,) = json.loads(done.stdout)["problems"]
    assert (done.returncode, problem["id"]) == (4, "serve-no-weights")
    assert problem["fix"].startswith(f"Export it first: xsft run {file} --to export")
