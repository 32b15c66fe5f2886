"""Reads of the runs of a cluster, from the stand-in: the requests, and the effect of each failed list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import ADMITTED, Runs, ended
from tests.observing import observe_cluster
from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.observation import Observation, Unread
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.read_progress import unread_of
from xsft.runs.read_runs import MAX_QUEUES

pytestmark = pytest.mark.loopback

NOW = "2026-11-21T12:00:00Z"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


STARTS = {"replicatedJobsStatus": [{"name": "slice-job", "active": 2}]}
"""Two Jobs, of which none is up."""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ClusterApi]:
    with standing_in(tmp_path) as standin:
        yield standin


@pytest.fixture
def runs(api: ClusterApi) -> Runs:
    return Runs(api.standin.objects)


def connected(api: ClusterApi) -> Cluster:
    patience = Patience(tries=2, sleep=api.waits.append, read_timeout_s=api.read_timeout_s)
    return connect(ClusterAddress(context=api.context), here=api.here, patience=patience)


def seen(api: ClusterApi) -> dict[str, Observation]:
    observations = observe_cluster(connected(api), namespace="default", name="here", now=NOW)
    return {observation.jobset.name: observation for observation in observations if observation.jobset}


def whats(observation: Observation) -> set[str]:
    return {unread.what for unread in observation.unread}


@pytest.mark.early
def test_runs_of_every_kind_are_observed_in_four_lists(api: ClusterApi, runs: Runs) -> None:
    runs.admitted("going")
    runs.pod("going")
    runs.admitted("heads", mode="pathways", status={})
    runs.plain("by-xpk")
    runs.queued("waits", position=3)
    stuck = runs.admitted("stuck", status=STARTS)
    runs.pod("stuck", phase="Pending", conditions=[UNSCHEDULABLE])
    runs.pod("stuck", host=7, phase="Pending")
    rows = seen(api)
    assert set(rows) == {"going", "heads", "by-xpk", "waits", "stuck"}
    assert rows["going"].workload is not None
    assert {c.type for c in rows["going"].workload.conditions} == set(ADMITTED)
    assert rows["going"].pods is None
    assert rows["waits"].workload is not None
    assert rows["waits"].position == 3
    assert rows["stuck"].pods is not None
    (pod,) = rows["stuck"].pods
    assert (pod.host, pod.status.conditions[0].reason) == (0, "Unschedulable")
    assert rows["by-xpk"].workload is None
    assert rows["by-xpk"].jobset is not None
    assert (rows["by-xpk"].jobset.ours, rows["by-xpk"].steps, rows["heads"].mode) == (False, 1000, "pathways")
    assert all(
        run_read.unread == () and run_read.cluster == "here" and run_read.observed_at == NOW
        for run_read in rows.values()
    )
    assert stuck["metadata"]["uid"] == rows["stuck"].jobset.uid if rows["stuck"].jobset else False
    lists = [run_read for run_read in api.server.seen if run_read.method == "GET"]
    assert len(lists) == 5, [run_read.line for run_read in lists]
    (pods,) = api.server.asked("/pods")
    assert pods.query["fieldSelector"] == "status.phase=Pending"
    assert pods.query["resourceVersion"] == "0"
    assert all(run_read.headers["accept-encoding"] == "gzip" for run_read in lists)


@pytest.mark.parametrize(
    ("path", "what"), [("/workloads", "workloads"), ("/pods", "pods"), ("/pendingworkloads", "queue")]
)
@pytest.mark.parametrize(
    "fault",
    [
        {"code": 403, "message": 'pods is forbidden: User "u" cannot list resource "pods"'},
        {"code": 500},
        {"code": 429, "retry_after": "1"},
        {"action": "cut-before"},
        {"action": "hang-before"},
        {"action": "broken-json"},
        {"action": "short"},
    ],
    ids=lambda fault: str(fault.get("code") or fault["action"]),
)
def test_a_failed_list_is_unread_and_loses_nothing_else(
    api: ClusterApi, runs: Runs, path: str, what: str, fault: dict[str, Any]
) -> None:
    runs.admitted("going")
    runs.admitted("starts", status=STARTS)
    runs.queued("waits", position=0)
    if fault.get("action") == "hang-before":
        api.expect_silence()
    api.server.fail(path, times=99, **fault)
    rows = seen(api)
    assert set(rows) == {"going", "starts", "waits"}
    assert whats(rows["starts" if what == "pods" else "waits"]) == {what}
    assert whats(rows["going"]) == ({what} if what == "workloads" else set())
    assert all("\n" not in unread.why and unread.why for row in rows.values() for unread in row.unread)


def test_a_truncated_list_is_requested_again(api: ClusterApi, runs: Runs) -> None:
    runs.admitted("going", status=STARTS)
    for path in ("/jobsets", "/workloads", "/pods"):
        api.server.fail(path, action="broken-json")
    assert seen(api)["going"].unread == ()


def test_a_slow_list_is_unread_after_its_deadline(api: ClusterApi, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xsft.runs.read_runs.LATE_S", 1.0)
    runs.admitted("going", status=STARTS)
    api.server.fail("/pods", code=0, delay_s=60.0, times=9)
    assert whats(seen(api)["going"]) == {"pods"}


@pytest.mark.parametrize("code", [404, 503])
def test_a_kueue_without_queue_positions_is_no_error(api: ClusterApi, runs: Runs, code: int) -> None:
    runs.queued("waits")
    if code == 404:
        api.standin.objects.uninstall("visibility.kueue.x-k8s.io")
    else:
        api.server.fail("/pendingworkloads", code=503, times=99)
    row = seen(api)["waits"]
    assert row.workload is not None
    assert row.position is None
    assert whats(row) == ({"queue"} if code == 503 else set())


def test_an_older_kueue_is_queried_in_its_version(api: ClusterApi, runs: Runs) -> None:
    jobset = runs.admitted("going")
    for key in ("kueue.x-k8s.io/workloads", "visibility.kueue.x-k8s.io/localqueues"):
        _, kind, namespaced = api.standin.objects.kinds[key]
        api.standin.objects.kinds[key] = (("v1beta1",), kind, namespaced)
    row = seen(api)["going"]
    assert row.workload is not None
    assert row.workload.name == "jobset-going-1a2b3"
    assert jobset["metadata"]["name"] == "going"


def test_runs_have_no_workload_without_kueue(api: ClusterApi, runs: Runs) -> None:
    runs.jobset("going")
    for group in ("kueue.x-k8s.io", "visibility.kueue.x-k8s.io"):
        api.standin.objects.uninstall(group)
    row = seen(api)["going"]
    assert (row.workload, row.unread) == (None, ())


@pytest.mark.parametrize("fault", [{"code": 500}, {"code": 403}, {"action": "hang-before"}, {"action": "cut-before"}])
def test_a_failed_list_of_jobsets_is_unreachable(api: ClusterApi, runs: Runs, fault: dict[str, Any]) -> None:
    runs.admitted("going")
    words = {"message": 'jobsets is forbidden: User "u" cannot list resource "jobsets"'} if "code" in fault else {}
    if fault.get("action") == "hang-before":
        api.expect_silence()
    api.server.fail("/jobsets", times=99, **fault, **words)
    with pytest.raises(Unreachable):
        seen(api)


def test_a_cluster_without_jobset_is_reported(api: ClusterApi) -> None:
    api.standin.objects.uninstall("jobset.x-k8s.io")
    with pytest.raises(EnvironmentMissing, match="JobSet is not installed"):
        seen(api)


def test_the_number_of_lists_does_not_grow_with_the_runs(api: ClusterApi, runs: Runs) -> None:
    for i in range(100):
        runs.admitted(f"run-{i}")
        runs.queued(f"waits-{i}", queue="q-0")
    runs.admitted("starts", status=STARTS)
    assert len(seen(api)) == 201
    assert len([request for request in api.server.seen if request.method == "GET"]) == 5


def test_pods_are_listed_only_if_a_run_is_starting(api: ClusterApi, runs: Runs) -> None:
    """The server scans all pods for this list."""
    runs.admitted("going")
    runs.queued("waits", position=0)
    runs.admitted("over", status=ended("Failed", "x"))
    assert set(seen(api)) == {"going", "waits", "over"}
    assert api.server.asked("/pods") == []


def test_a_run_with_one_job_not_ready_is_starting(api: ClusterApi, runs: Runs) -> None:
    up = [{"name": "worker", "ready": 2, "active": 2}, {"name": "pathways-head", "active": 1}]
    runs.admitted("heads", mode="pathways", status={"replicatedJobsStatus": up})
    seen(api)
    assert len(api.server.asked("/pods")) == 1
    up[1]["ready"] = 1
    seen(api)
    assert len(api.server.asked("/pods")) == 1


def test_positions_are_queried_for_the_fullest_queues(api: ClusterApi, runs: Runs) -> None:
    for i in range(2 * MAX_QUEUES + 1):
        runs.queued(f"waits-{i}", queue=f"q-{i % (MAX_QUEUES + 1)}", position=i)
    runs.queued("last", queue=f"q-{MAX_QUEUES}", position=70)  # its queue is as full as the others now
    rows = seen(api)
    queues_asked = {request.path.split("/")[-2] for request in api.server.asked("/pendingworkloads")}
    assert queues_asked == {f"q-{i}" for i in range(MAX_QUEUES)}
    assert {name: row.position for name, row in rows.items() if row.position is not None} == {
        f"waits-{i}": i for i in range(2 * MAX_QUEUES + 1) if i % (MAX_QUEUES + 1) < MAX_QUEUES
    }
    unread = {name: request.unread for name, request in seen(api).items() if request.unread}
    assert {name: [lack.what for lack in lacks] for name, lacks in unread.items()} == {
        "last": ["queue"],
        f"waits-{MAX_QUEUES}": ["queue"],
    }


@pytest.mark.early
def test_an_unread_list_keeps_what_its_failure_says() -> None:
    failed = Unreachable("no route\nto host", fix="Connect the VPN.", id="no-route", again="never")
    unread_source = Unread(what="pods", why="no route to host", fix="Connect the VPN.", id="no-route", again="never")
    assert unread_of("pods", failed) == unread_source
