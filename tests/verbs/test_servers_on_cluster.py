"""Servers in status, why, logs and cancel: a Deployment is a run like others, and one delete by UID ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.documents import read_document
from tests.fakes.clusters import ClusterApi
from tests.fakes.kubeobjects import Json
from tests.servers import NAME, recorded, server
from xsft.stages.create_server import begin
from xsft.verbs.cli import main

pytestmark = pytest.mark.loopback

TRAINING = NAME.removesuffix("-serve")
POD = f"{NAME}-5f7d8c9b6d-xtx22"
CRASHED = {"terminated": {"exitCode": 1, "reason": "Error"}}


@pytest.fixture
def deployment(api: ClusterApi, tmp_path: Path) -> Json:
    """A server, as `xsft serve` makes it."""
    place = {"context": api.context, "output": "gs://my-bucket/runs"}
    record = recorded(tmp_path, changes={"place": place})
    begin(api.connect(), server(), record=record, progress=lambda _line: None)
    return api.standin.objects.of("apps/deployments")["default", NAME]


@pytest.fixture
def xsft(api: ClusterApi, capsys: pytest.CaptureFixture[str]) -> Any:
    def asked(*arguments: str) -> tuple[int, Any, str]:
        status = main((arguments[0], "--context", api.context, *arguments[1:]))
        captured = capsys.readouterr()
        if "--json" not in arguments:
            return status, captured.out, captured.err
        read_document(arguments[0], captured.out)
        return status, json.loads(captured.out), captured.err

    return asked


def pod(api: ClusterApi, **status: Any) -> None:
    labels = {"xsft.dev/run": NAME, "xsft.dev/work": "serve"}
    metadata = {"creationTimestamp": "2026-11-21T10:00:00Z", "labels": labels}
    api.standin.objects.add("/pods", POD, namespace="default", metadata=metadata, status=status)


def the_row(xsft: Any) -> dict[str, Any]:
    _, document, _ = xsft("status", "--json")
    (row,) = document["runs"]
    return dict(row)


def test_a_server_is_a_row_of_its_pipeline_and_serves_when_its_pod_is_ready(deployment: Json, xsft: Any) -> None:
    row = the_row(xsft)
    assert (row["run_name"], row["pipeline"], row["stage"]) == (NAME, TRAINING, "serve")
    assert (row["state"], row["uid"]) == ("starting", deployment["metadata"]["uid"])
    deployment["status"] = {"readyReplicas": 1}
    assert the_row(xsft)["state"] == "serving"
    assert xsft("wait", NAME, "--timeout", "5s")[0] == 0
    assert xsft("why", NAME, "--json")[1]["cause"]["id"] == "server-up"


def test_a_server_that_crashes_is_explained_by_its_last_lines(api: ClusterApi, deployment: Json, xsft: Any) -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    vllm = {"name": "vllm", "restartCount": 3, "state": waits, "lastState": CRASHED}
    pod(api, phase="Running", containerStatuses=[vllm])
    for previous in (True, False):
        api.standin.logs.say(POD, "ValueError: no room for the cache", previous=previous, end=True)
    row = the_row(xsft)
    assert (row["state"], row["reason"]) == ("starting", "crash-loop")
    cause = xsft("why", NAME, "--json")[1]["cause"]
    assert (cause["id"], cause["evidence"]) == ("server-crash", ["ValueError: no room for the cache"])
    for every in ((), ("--all",)):
        assert xsft("logs", NAME, *every)[1] == "ValueError: no room for the cache\n"


def test_one_delete_by_uid_ends_a_server_and_is_recorded(api: ClusterApi, deployment: Json, xsft: Any) -> None:
    status, _, err = xsft("cancel", NAME)
    assert (status, f"Deployment {NAME}, uid {deployment['metadata']['uid']}" in err) == (4, True)
    status, document, _ = xsft("cancel", NAME, "--yes", "--json")
    assert (status, document["action"], document["uid"]) == (0, "cancelled", deployment["metadata"]["uid"])
    (delete,) = api.server.asked(r"^DELETE ")
    assert delete.body["preconditions"] == {"uid": deployment["metadata"]["uid"]}
    assert the_row(xsft)["state"] == "cancelled"


def test_servers_that_may_not_be_listed_are_unknown_and_all_else_is_read(
    api: ClusterApi, deployment: Json, xsft: Any
) -> None:
    api.standin.denied.add(("list", "deployments"))
    row = the_row(xsft)
    assert (row["state"], row["reason"]) == ("unknown", "unreachable")
    assert row["unread"][0].startswith("servers: ")
