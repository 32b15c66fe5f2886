"""Evidence for the explanation of a run, read from the stand-in; what cannot be read is None and no error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import NAMESPACE, QUEUE, QUEUED, RUNNING, Runs, ended
from tests.observing import observe_run
from tests.replacing import replace
from xsft.cluster.api import Patience
from xsft.cluster.cluster import connect
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Status
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.causes import explain_state
from xsft.runs.classify import classify
from xsft.runs.read_evidence import read_evidence
from xsft.trainer.progress import Progress

pytestmark = pytest.mark.loopback

NOW = "2026-11-21T12:00:00Z"
ERROR = "MAXTEXT CONFIG ERROR: 'stepz' not in 'emb_dim'"


class World:
    def __init__(self, api: ClusterApi) -> None:
        self.api = api
        self.runs = Runs(api.standin.objects)

    def evidence(self, run: str, *, without_pods: bool = False, **how: Any) -> Evidence:
        patience = Patience(tries=1, read_timeout_s=60.0)
        cluster = connect(ClusterAddress(context=self.api.context), here=self.api.here, patience=patience)
        attempts = observe_run(cluster, namespace=NAMESPACE, name="here", run_name=run, now=NOW)
        attempts = tuple(replace(attempt, progress=how.get("progress")) for attempt in attempts)
        how.pop("progress", None)
        newest = replace(attempts[0], pods=None) if without_pods else attempts[0]
        if path := how.pop("denied", None):
            self.api.server.fail(path, times=99, code=403, message="x cannot get resource y")
        arguments = {"status": classify(newest), **how}
        return read_evidence(cluster, seen=newest, attempts=attempts, **arguments)

    def event(self, name: str, kind: str, about: str, *, uid: str = "", type: str = "Warning", **said: Any) -> None:
        involved = {"kind": kind, "name": about, "uid": uid}
        content = {"involvedObject": involved, "type": type, "reason": "R", "message": "m", **said}
        self.api.standin.objects.add("/events", name, namespace=NAMESPACE, **content)

    def failed(
        self,
        run: str,
        name: str,
        *,
        host: int = 0,
        code: int = 1,
        lines: tuple[str, ...] = (),
        message: str = "",
        reason: str = "Error",
    ) -> None:
        text = f"2026-11-21T11:00:{host:02}Z"
        terminated = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": text, "message": message}}
        status = [{"name": "jax-tpu", "restartCount": 0, "state": terminated}]
        pod = self.runs.pod(name, host=host, phase="Failed", containerStatuses=status)
        self.api.standin.logs.say(pod["metadata"]["name"], *lines, end=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_in(tmp_path) as api:
        yield World(api)


@pytest.mark.early
def test_a_waiting_run_shows_the_usage_and_order_of_its_queue(world: World) -> None:
    objects = world.api.standin.objects
    queue = objects.of("kueue.x-k8s.io/clusterqueues")["", "cluster-queue"]
    used = [{"name": "google.com/tpu", "total": "512"}]
    queue["status"]["flavorsUsage"] = [{"name": "2xv6e-256", "resources": used}]
    world.runs.admitted("holder")
    workload = objects.of("kueue.x-k8s.io/workloads")[NAMESPACE, "jobset-holder-1a2b3"]
    usage = {"google.com/tpu": "512", "cpu": "24"}
    workload["status"]["admission"] = {"clusterQueue": "cluster-queue", "podSetAssignments": [{"resourceUsage": usage}]}
    world.runs.queued("first", position=0)
    world.runs.queued("gemma", position=1)
    world.runs.queued("later", position=2)
    evidence = world.evidence("gemma")
    assert [(holder.name, holder.priority, holder.holds) for holder in evidence.holders or ()] == [
        ("holder", 500, "512 google.com/tpu")
    ]
    assert [(holder.name, holder.position) for holder in evidence.ahead or ()] == [("first", 0)]
    assert next((q.flavor, q.resource, q.total, q.used) for q in evidence.quotas or ()) == (
        "2xv6e-256", "google.com/tpu", "512", "512",
    )  # fmt: skip
    assert evidence.cluster_queue is not None
    assert (evidence.cluster_queue.type, evidence.cluster_queue.status) == ("Active", "True")
    assert evidence.missing == ()
    assert (evidence.logs, evidence.events, evidence.dry_run) == ((), (), None)


def test_holders_are_in_order_of_priority_and_runs_ahead_of_position(world: World) -> None:
    """Holders of another queue, and those that hold no accelerators, do not block the run."""
    objects = world.api.standin.objects
    for name, priority, queue, resource in (
        ("b", 500, "cluster-queue", "google.com/tpu"),
        ("a", 500, "cluster-queue", "google.com/tpu"),
        ("urgent", 1000, "cluster-queue", "google.com/tpu"),
        ("unranked", None, "cluster-queue", "google.com/tpu"),
        ("elsewhere", 500, "other-queue", "google.com/tpu"),
        ("small", 500, "cluster-queue", "cpu"),
    ):
        world.runs.admitted(name)
        workload = objects.of("kueue.x-k8s.io/workloads")[NAMESPACE, f"jobset-{name}-1a2b3"]
        workload["spec"]["priority"] = priority
        assigned = [{"resourceUsage": {resource: "4"}}]
        workload["status"]["admission"] = {"clusterQueue": queue, "podSetAssignments": assigned}
    for name, position in (("second", 1), ("first", 0), ("gemma", 2), ("later", 3)):
        world.runs.queued(name, position=position)
    evidence = world.evidence("gemma")
    assert [(holder.name, holder.priority) for holder in evidence.holders or ()] == [
        ("urgent", 1000), ("a", 500), ("b", 500), ("unranked", None),
    ]  # fmt: skip
    assert [(holder.name, holder.priority, holder.position) for holder in evidence.ahead or ()] == [
        ("first", 500, 0), ("second", 500, 1),
    ]  # fmt: skip


def test_the_queue_of_a_run_is_found_by_its_quota_workload_or_label(world: World) -> None:
    """By its quota, by its Workload's queue, or by its JobSet's label while there is no Workload."""
    objects = world.api.standin.objects
    world.runs.admitted("holds")
    workload = objects.of("kueue.x-k8s.io/workloads")[NAMESPACE, "jobset-holds-1a2b3"]
    workload["status"]["admission"] = {"clusterQueue": "cluster-queue"}
    world.runs.queued("waits")
    world.runs.jobset("new", status=QUEUED)
    for name in ("holds", "waits", "new"):
        evidence = world.evidence(name)
        assert evidence.cluster_queue is not None, name
        assert (evidence.cluster_queue.type, bool(evidence.quotas)) == ("Active", True)
    jobset = world.runs.queued("moved")
    jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nosuch"
    assert world.evidence("moved").cluster_queue is not None
    del objects.of("kueue.x-k8s.io/localqueues")[NAMESPACE, QUEUE]
    world.runs.queued("gone")
    assert world.evidence("holds").cluster_queue is not None
    assert world.evidence("gone").cluster_queue is None


def test_a_running_run_makes_no_queue_requests(world: World) -> None:
    world.runs.admitted("gemma")
    world.runs.pod("gemma")
    evidence = world.evidence("gemma")
    assert (evidence.holders, evidence.ahead) == (None, None)
    assert not world.api.server.asked("pendingworkloads")


def test_the_preemptor_is_found_by_the_uid_in_kueues_message(world: World) -> None:
    world.runs.queued("gemma", position=0)
    world.runs.admitted("rival")
    objects = world.api.standin.objects.of("kueue.x-k8s.io/workloads")
    rival = objects[NAMESPACE, "jobset-rival-1a2b3"]
    rival["status"]["admission"] = {"clusterQueue": "cluster-queue"}
    uid = rival["metadata"]["uid"]
    words = f"Preempted to accommodate a workload (UID: {uid}, JobUID: x) due to prioritization in the ClusterQueue"
    objects[NAMESPACE, "jobset-gemma-1a2b3"]["status"]["conditions"].append(
        {"type": "Preempted", "status": "True", "reason": "InClusterQueue", "message": words}
    )
    assert world.evidence("gemma").preemptor == "rival"


def test_missing_objects_that_the_run_names_are_listed(world: World) -> None:
    world.runs.queued("gemma", queue="nosuch")
    jobset = world.api.standin.objects.of("jobset.x-k8s.io/jobsets")[NAMESPACE, "gemma"]
    jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nosuch"
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["priorityClassName"] = "urgent"
    pod["volumes"].append({"name": "t", "secret": {"secretName": "hf-token"}})
    objects = world.api.standin.objects
    objects.add("/secrets", "there", namespace=NAMESPACE)
    pod["volumes"].append({"name": "u", "secret": {"secretName": "there"}})
    pod["volumes"].append({"name": "o", "secret": {"secretName": "not-needed", "optional": True}})
    assert world.evidence("gemma").missing == ("LocalQueue/nosuch", "PriorityClass/urgent", "Secret/hf-token")
    world.api.server.fail("/priorityclasses/", code=403, message="cannot get resource x", times=9)
    assert world.evidence("gemma").missing == ("LocalQueue/nosuch", "Secret/hf-token")


def test_events_are_those_of_the_run_only(world: World) -> None:
    jobset = world.runs.admitted("gemma")
    world.runs.admitted("gemma-slice")
    world.event("1", "JobSet", "gemma", uid=jobset["metadata"]["uid"], type="Normal", reason="Started")
    world.event("2", "Pod", "gemma-slice-job-1-63-abcde", reason="FailedScheduling", count=7, lastTimestamp=NOW)
    world.event("3", "Job", "gemma-slice-job-1", reason="FailedCreate")
    world.event("4", "Workload", "jobset-gemma-1a2b3", reason="W")
    world.event("5", "Pod", "gemma-slice-slice-job-0-0-abcde", reason="Other")
    world.event("6", "JobSet", "gemma-slice", reason="Other")
    world.event("7", "Job", "gemma-slice-job-2", reason="Other")
    events = world.evidence("gemma").events or ()
    assert sorted(event.reason for event in events) == ["FailedCreate", "FailedScheduling", "Started", "W"]
    scheduling = next(event for event in events if event.reason == "FailedScheduling")
    assert (scheduling.object, scheduling.at) == ("Pod/gemma-slice-job-1-63-abcde", NOW)


def test_evidence_includes_warnings_of_the_nodes_of_a_restarted_run(world: World) -> None:
    again = {**RUNNING, "restarts": 1, "replicatedJobsStatus": [{"name": "slice-job", "ready": 0, "active": 2}]}
    jobset = world.runs.admitted("gemma", status=again)
    world.runs.pod("gemma", attempt=1)
    killing = {"reason": "OOMKilling", "message": "Memory cgroup out of memory: Killed process 7"}
    world.event("1", "Node", "n", lastTimestamp="2026-11-21T11:59:00Z", **killing)
    world.event("2", "Node", "another", lastTimestamp="2026-11-21T11:59:00Z", **killing)
    world.event("3", "Node", "n", lastTimestamp="2026-11-20T11:59:00Z", **killing)
    world.event("4", "Node", "n", type="Normal", lastTimestamp="2026-11-21T11:59:00Z", reason="NodeReady")
    world.event("5", "Node", "n", reason="Timeless")
    evidence = world.evidence("gemma")
    about = {(event.object, event.reason, event.at) for event in evidence.node_events or ()}
    assert about == {("Node/n", "OOMKilling", "2026-11-21T11:59:00Z"), ("Node/n", "Timeless", "2026-11-21T10:00:00Z")}
    assert explain_state(evidence).cause.id == "restarted-memory"
    jobset["status"] = {**again, "restarts": 0}
    assert world.evidence("gemma").node_events is None


def test_evidence_reads_pods_that_status_does_not_read(world: World) -> None:
    world.runs.jobset("gemma", status=ended("Failed", "ReachedMaxRestarts"))
    world.failed("gemma", "gemma", host=3, code=137, reason="OOMKilled")
    evidence = world.evidence("gemma")
    assert (evidence.status.state, evidence.status.reason) == ("failed", "oom-killed")
    assert explain_state(evidence).reason == "oom-killed"


def test_a_run_is_judged_again_by_its_pods_if_they_can_be_read(world: World) -> None:
    world.runs.jobset("gemma", status=ended("Failed", "ReachedMaxRestarts"))
    world.failed("gemma", "gemma", host=3, code=137, reason="OOMKilled")
    earlier = Status(state="failed", reason="trainer-failed")
    evidence = world.evidence("gemma", without_pods=True, status=earlier)
    assert (evidence.status.reason, [pod.host for pod in evidence.seen.pods or ()]) == ("oom-killed", [3])
    blind = world.evidence("gemma", without_pods=True, status=earlier, denied="/pods")
    assert (blind.status, blind.seen.pods) == (earlier, None)
    assert [unread_source.what for unread_source in blind.seen.unread] == ["pods"]


def test_a_part_that_is_late_is_not_waited_for(world: World) -> None:
    world.runs.admitted("gemma")
    world.runs.pod("gemma")
    world.api.server.fail("/events", code=0, delay_s=60.0, times=9)
    began = time.monotonic()
    assert world.evidence("gemma", deadline_s=0.5).events is None
    assert time.monotonic() - began < 30


def test_logs_of_only_the_first_failed_processes_are_read(world: World) -> None:
    world.runs.jobset("gemma", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    for host in range(8):
        world.failed("gemma", "gemma", host=host, lines=(ERROR if host == 0 else "peer is gone",))
    evidence = world.evidence("gemma")
    assert [log.host for log in evidence.logs or ()] == [0, 1, 2]
    first = (evidence.logs or ())[0]
    assert first.said is not None
    assert first.said.kind == "config-error"
    assert first.lines == (ERROR,)
    assert first.said_at == "2026-11-21T10:00:00.000000000Z"


RAISED = "Traceback (most recent call last):\n\x1b[1;31mValueError\x1b[0m: no such key\x07 'a'\n"


@pytest.mark.parametrize("fault", [None, {"code": 403, "message": "cannot get resource pods/log"}])
def test_a_termination_message_is_used_if_the_log_has_no_cause(world: World, fault: dict[str, Any] | None) -> None:
    """The lines of the message have colours, as programs write them."""
    world.runs.jobset("gemma", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    world.failed("gemma", "gemma", message=RAISED)
    if fault is not None:
        world.api.server.fail("/log", times=9, **fault)
    evidence = world.evidence("gemma")
    (log,) = evidence.logs or ()
    assert log.said is not None
    assert (log.said.kind, log.said.line) == ("exception", "ValueError: no such key 'a'")
    cause = explain_state(evidence).cause
    assert (cause.id, cause.evidence) == ("exception", ("ValueError: no such key 'a'",))


def test_an_unhelpful_termination_message_is_quoted_once(world: World) -> None:
    world.runs.jobset("gemma", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    world.failed("gemma", "gemma", message="bye\n")
    cause = explain_state(world.evidence("gemma")).cause
    assert (cause.id, cause.evidence) == ("exit-code", ("bye",))


def test_the_earlier_termination_message_explains_a_restarted_container(world: World) -> None:
    world.runs.admitted("gemma")
    before = {"terminated": {"exitCode": 1, "reason": "Error", "message": RAISED}}
    row = {"name": "jax-tpu", "restartCount": 1, "state": {"running": {}}, "lastState": before}
    world.runs.pod("gemma", containerStatuses=[row])
    (log,) = world.evidence("gemma").logs or ()
    assert log.said is not None
    assert log.said.kind == "exception"


def test_the_log_before_a_container_restart_is_read(world: World) -> None:
    world.runs.admitted("gemma")
    before = {"terminated": {"exitCode": 1, "reason": "Error"}}
    row = {"name": "jax-tpu", "restartCount": 1, "state": {"running": {}}, "lastState": before}
    pod = world.runs.pod("gemma", containerStatuses=[row])["metadata"]["name"]
    world.api.standin.logs.say(pod, ERROR, previous=True, end=True)
    world.api.standin.logs.say(pod, "going")
    (log,) = world.evidence("gemma").logs or ()
    assert log.lines == (ERROR,)


def test_earlier_attempts_are_listed_with_their_last_step(world: World) -> None:
    for number, second in ((1, "08"), (2, "09"), (3, "10")):
        name = "gemma" if number == 1 else f"gemma-{number}"
        jobset = world.runs.jobset(name, run="gemma", status=ended("Failed", "FailJobSetFailurePolicyAction"))
        jobset["metadata"]["creationTimestamp"] = f"2026-11-21T{second}:00:00Z"
        world.failed("gemma", name, lines=(ERROR,))
    evidence = world.evidence("gemma", progress=Progress(source="log", read_at=NOW, step=3))
    assert evidence.seen.jobset is not None
    assert evidence.seen.jobset.name == "gemma-3"
    assert [(end.name, end.step) for end in evidence.earlier] == [("gemma", 3), ("gemma-2", 3)]
    assert {end.signature for end in evidence.earlier} == {(evidence.logs or ())[0].said.signature}  # type: ignore[union-attr]


def test_the_jobs_of_a_run_without_jobs_are_dry_run(world: World) -> None:
    jobset = world.runs.admitted("gemma", status={})
    container = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["image"] = ""
    evidence = world.evidence("gemma")
    assert evidence.status.reason in {"broken-spec", "no-jobs"}
    assert evidence.dry_run is not None
    assert "image: Required value" in evidence.dry_run[0].message


def test_the_jobs_of_workers_that_wait_for_their_head_are_dry_run(world: World) -> None:
    waits = {"type": "StartupPolicyInProgress", "status": "True", "reason": "InOrderStartupPolicyInProgress"}
    up = [{"name": "pathways-head", "ready": 1, "active": 1}]
    world.runs.admitted("gemma", mode="pathways", status={"conditions": [waits], "replicatedJobsStatus": up})
    evidence = world.evidence("gemma")
    assert (evidence.status.reason, evidence.dry_run) == ("workers-after-head", ())


@pytest.mark.parametrize(
    "path", ["/events", "/clusterqueues/", "/workloads", "/pendingworkloads", "/log", "/priorityclasses"]
)
@pytest.mark.parametrize(
    "fault", [{"code": 500}, {"action": "cut-before"}, {"code": 403, "message": "x cannot get resource y"}]
)
def test_an_unreadable_part_of_the_evidence_is_none_and_no_error(
    world: World, path: str, fault: dict[str, Any]
) -> None:
    world.runs.queued("gemma", position=0)
    world.runs.pod("gemma")
    world.api.server.fail(path, times=99, **fault)
    evidence = world.evidence("gemma")
    none = {
        "/events": evidence.events, "/clusterqueues/": evidence.quotas, "/workloads": evidence.holders,
        "/pendingworkloads": evidence.ahead, "/log": evidence.logs or None, "/priorityclasses": None,
    }  # fmt: skip
    assert none[path] is None
    assert evidence.missing == ()
