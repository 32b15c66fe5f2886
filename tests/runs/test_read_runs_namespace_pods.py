"""The first pods of runs: which lists are requested, and the progress and pending pods read from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import QUEUED, RUNNING, ended
from tests.fakes.kuberuns import Runs as FakeRuns
from tests.faults.fault import Seen
from tests.observations import jobset
from tests.runs.seen import pod
from tests.runs.test_read_progress import STEP
from xsft.cluster.api import Patience
from xsft.cluster.cluster import connect
from xsft.cluster.sources import RunSource
from xsft.machine.objects import LocalObjects
from xsft.records.record_files import RecordStore
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.read_all import Runs
from xsft.runs.read_progress import printer_of
from xsft.runs.read_scope import ReadLimits

DEFAULTS = ReadLimits()
STARTING = {"restarts": 0, "replicatedJobsStatus": [{"name": "slice-job", "active": 2}]}
LOG, PODS = "/log", r"/pods\?"
Told = dict[str, tuple[Any, ...]]


class Looks:
    """Successive reads of the stand-in."""

    def __init__(self, api: ClusterApi, folder: Path) -> None:
        self.api = api
        self.there = FakeRuns(api.standin.objects)
        self.made: dict[str, dict[str, Any]] = {}
        self.asked: list[Seen] = []
        self.state = folder / "state"

    def run(self, name: str, status: dict[str, Any] = RUNNING) -> None:
        self.made[name] = self.there.jobset(name, status=status)

    def says(self, name: str, *steps: int, tag: str = "abcde", attempt: int = 0) -> None:
        pod = f"{name}-slice-job-0-0-{tag}"
        if ("default", pod) not in self.api.standin.objects.of("/pods"):
            self.there.pod(name, tag=tag, attempt=attempt)
        self.api.standin.logs.say(pod, *(STEP.format(n=n) for n in steps))

    def look(self, *names: str, limits: ReadLimits = DEFAULTS) -> Told:
        before = len(self.api.server.seen)
        observations = self._runs(names, limits).read().observations
        self.asked = self.api.server.seen[before:]
        return {
            observation.jobset.name: (
                observation.progress and observation.progress.step,
                observation.jobset,
                observation.pods,
                observation.unread,
            )
            for observation in observations
            if observation.jobset
        }

    def count(self, on: str) -> int:
        return sum(1 for request in self.asked if re.search(on, request.line))

    def _runs(self, names: tuple[str, ...], limits: ReadLimits) -> Runs:
        store = RecordStore(state=self.state, objects_at=lambda _: LocalObjects())
        source = RunSource(name="stand-in", where=ClusterAddress(context="stand-in"), namespace="default")
        patience = Patience(tries=1, read_timeout_s=60.0)
        return Runs(
            sources=(source,),
            store=store,
            names=names,
            local=False,
            limits=limits,
            connect=lambda _: connect(ClusterAddress(context=self.api.context), here=self.api.here, patience=patience),
        )


@pytest.fixture
def looks(tmp_path: Path) -> Iterator[Looks]:
    with standing_in(tmp_path) as api:
        yield Looks(api, tmp_path)


def steps(answers: Told) -> dict[str, int | None]:
    return {name: answer[0] for name, answer in answers.items()}


def test_one_list_of_pods_gives_progress_and_starting_pods(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    waits(looks, "b")
    answers = looks.look()
    assert steps(answers) == {"a": 1, "b": None}
    assert looks.count(PODS) == 1


def test_forbidden_pods_are_reported_once(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    looks.api.standin.denied.add(("list", "pods"))
    answer = looks.look()["a"]
    assert (answer[0], [unread_source.what for unread_source in answer[3]]) == (None, ["log"])
    looks.api.standin.denied.clear()
    assert steps(looks.look()) == {"a": 1}


def test_a_log_that_hangs_does_not_delay_others(looks: Looks) -> None:
    for name in ("a", "b"):
        looks.run(name)
        looks.says(name, 1)
    looks.api.server.fail("a-slice-job-0-0-abcde/log", action="hang-before", times=9)
    answers = looks.look(limits=ReadLimits(progress_s=2.0))
    assert steps(answers) == {"a": None, "b": 1}
    assert [unread_source.what for unread_source in answers["a"][3]] == ["log"]


def test_pods_and_logs_are_not_requested_without_progress(looks: Looks) -> None:
    looks.run("a")
    looks.says("a", 1)
    looks.run("b", QUEUED)
    assert steps(looks.look(limits=ReadLimits(progress_s=0))) == {"a": None, "b": None}
    assert (looks.count(PODS), looks.count(LOG)) == (0, 0)


def test_a_named_run_reads_only_its_own_pods_and_log(looks: Looks) -> None:
    for name in ("a", "b"):
        looks.run(name)
        looks.says(name, 1)
    looks.run("c", QUEUED)
    assert steps(looks.look("a")) == {"a": 1}
    (log_request,) = [request for request in looks.asked if request.path.endswith("/log")]
    assert (log_request.path.split("/")[-2], log_request.query["tailLines"]) == ("a-slice-job-0-0-abcde", "800")
    (pods,) = [request for request in looks.asked if request.path.endswith("/pods")]
    assert "in (a)" in pods.query["labelSelector"]


def test_a_named_run_lists_no_other_jobset_and_workload(looks: Looks) -> None:
    """Attempts are found by xsft's label; a run of xpk, and one whose label was removed, by its name."""
    others = [looks.there.admitted(name) for name in ("b", "c")]
    attempts = [looks.there.admitted(name, run="a") for name in ("a", "a-2")]
    looks.there.plain("by-xpk")
    del others[1]["metadata"]["labels"]["xsft.dev/run"]
    limits = ReadLimits(progress_s=0)
    assert set(looks.look("a", limits=limits)) == {"a", "a-2"}
    jobsets = [request for request in looks.asked if "/jobsets" in request.path]
    assert [
        (request.path.rpartition("/")[2], request.query)
        for request in sorted(jobsets, key=lambda request: request.path)
    ] == [("jobsets", {"labelSelector": "xsft.dev/run in (a)"}), ("a", {})]
    (workloads,) = [request.query["labelSelector"] for request in looks.asked if request.path.endswith("/workloads")]
    assert all(request["metadata"]["uid"] in workloads for request in attempts)
    assert not any(request["metadata"]["uid"] in workloads for request in others)
    assert set(looks.look("by-xpk", "c", limits=limits)) == {"by-xpk", "c"}
    assert set(looks.look("a-2", limits=limits)) == {"a-2"}
    assert looks.look("/out/a", "b/c", limits=limits) == {}


def waits(looks: Looks, name: str) -> None:
    """Make the run's pod wait for a node."""
    looks.run(name, STARTING)
    looks.there.pod(name, phase="Pending", containerStatuses=[])


@pytest.mark.parametrize("few", [True, False])
def test_pending_first_pods_of_starting_runs_are_reported(looks: Looks, few: bool) -> None:
    """If many runs start, all pending pods are listed, without a selector of names."""
    looks.run("a")
    looks.says("a", 1)
    for name in ("b", "c"):
        waits(looks, name)
    answers = looks.look(limits=ReadLimits(starting_at_most=2 if few else 1))
    assert {name: answer[2] and [pod.status.phase for pod in answer[2]] for name, answer in answers.items()} == {
        "a": None,
        "b": ["Pending"],
        "c": ["Pending"],
    }
    assert looks.count(PODS) == 2 - few
    assert looks.count("fieldSelector=status.phase=Pending") == 1 - few


def test_a_named_run_that_ended_requests_no_pods_of_starting_ones(looks: Looks) -> None:
    looks.run("a", ended("Failed", "x"))
    waits(looks, "b")
    looks.look("a", limits=ReadLimits(progress_s=0))
    assert looks.count(PODS) == 0


@pytest.mark.parametrize(
    ("others", "prints"),
    [
        ([], "one"),
        ([{"deleting": True, "attempt": 1}], "one"),
        ([{"attempt": 1, "created_at": "2026-11-21T09:00:00Z"}], "other"),
        ([{"created_at": "2026-11-21T11:00:00Z"}], "other"),
        ([{"host": 1, "attempt": 2}], "one"),
        ([{"jobset": "b", "attempt": 2}], "one"),
    ],
)
def test_printer_of_chooses_the_latest_live_pod(others: list[dict[str, Any]], prints: str) -> None:
    pod_fields: dict[str, Any] = {"jobset": "a", "created_at": "2026-11-21T10:00:00Z"}
    several = [
        pod(name="one", **pod_fields),
        *(pod(**{"name": "other", **pod_fields, **changed}) for changed in others),
    ]
    for pods in (several, several[::-1]):
        pod_object = printer_of(jobset("a"), pods)
        assert pod_object is not None
        assert pod_object.name == prints


def test_printer_of_returns_a_deleted_pod_if_there_is_no_other() -> None:
    going = pod(jobset="a", name="going", deleting=True)
    assert printer_of(jobset("a"), [going]) is going
    assert printer_of(jobset("a"), []) is None
