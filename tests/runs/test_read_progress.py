"""The progress of runs: from logs, from files in the output, or unread after the deadline."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clusters import ClusterApi, standing_in
from tests.fakes.kuberuns import Runs, ended
from tests.observations import queued
from tests.observing import observe_cluster
from tests.replacing import replace
from xsft.base.errors import Unreachable
from xsft.cluster.api import Patience
from xsft.cluster.cluster import connect
from xsft.cluster.observation import Observation, Recorded, RunObject, Unread, What
from xsft.cluster.pod_fields import first_hosts_selector
from xsft.machine.objects import LocalObjects, Objects
from xsft.machine.parallel import start
from xsft.records.jobset_paths import OUTPUT_ANNOTATION, WORK_LABEL
from xsft.records.record import Attempt, AttemptFacts, Outcome, Record
from xsft.records.record_files import RecordRef, RecordStore
from xsft.records.run_cluster import ClusterAddress
from xsft.runs.classify import classify
from xsft.runs.read_progress import LONG_TAIL, NOT_ASKED, NOT_READ, TAIL, ProgressSource, not_asked, read_progress
from xsft.runs.read_scope import lacks_progress, may_have_progress

NOW = "2026-11-21T12:00:00Z"
STEP = (
    "I1120 07:21:57.5 1 metric_logger.py:265] completed step: {n}, seconds: 0.500, TFLOP/s/device: 400.0,"
    " Tokens/s/device: 1181.694, total_weights: 84, loss: 2.500, lm_loss: 0.000, perplexity: 631.719"
)


class World:
    def __init__(self, api: ClusterApi, output: Path) -> None:
        self.api, self.output = api, output
        self.runs = Runs(api.standin.objects)
        self.patience = Patience(tries=1, read_timeout_s=60.0)
        self.denied = False

    def run(self, name: str, **how: Any) -> dict[str, Any]:
        made = self.runs.admitted(name, **how)
        made["metadata"]["annotations"][OUTPUT_ANNOTATION] = str(self.output)
        return made

    def speaks(self, name: str, *steps: int, phase: str = "Running") -> None:
        pod = self.runs.pod(name, phase=phase)["metadata"]["name"]
        self.api.standin.logs.say(pod, *(STEP.format(n=n) for n in steps))

    def seen(self) -> list[Observation]:
        cluster = connect(ClusterAddress(context=self.api.context), here=self.api.here, patience=self.patience)
        self.cluster = cluster
        observations = observe_cluster(cluster, namespace="default", name="here", now=NOW)
        return sorted(observations, key=lambda observation: observation.run_name)

    def read(self, observed: list[Observation] | None = None, **how: Any) -> dict[str, Observation]:
        observations_before = self.seen() if observed is None else observed
        source = self.source(**how.pop("source", {}))
        to_read = [observation for observation in observations_before if lacks_progress(observation)]
        observations = read_progress(to_read, source=source, **{"deadline_s": 10.0, **how})
        return {observation.run_name: observation for observation in (*observations_before, *observations)}

    def source(self, objects: Objects | None = None, **how: Any) -> ProgressSource:
        objects_at = self.objects if objects is None else lambda _: objects
        store = RecordStore(state=self.output / "state", objects_at=objects_at, now=lambda: NOW)
        names = [name for _, name in self.api.standin.objects.of("jobset.x-k8s.io/jobsets")] or ["none"]
        labels = first_hosts_selector(names)
        pods = start(lambda: self.cluster.reads.pods(namespace="default", labels=labels, cached=True))
        return ProgressSource(cluster=self.cluster, store=store, first_pods=(pods,), **how)

    def objects(self, _: str) -> Objects:
        if self.denied:
            raise Unreachable("permission denied (HTTP 403)")
        return LocalObjects()

    def checkpoint(self, name: str, step: int) -> None:
        folder = self.output / name / "checkpoints" / str(step)
        folder.mkdir(parents=True)
        (folder / "_CHECKPOINT_METADATA").write_text("{}")

    def metrics(self, name: str, *steps: int) -> None:
        folder = self.output / name / "metrics"
        folder.mkdir(parents=True, exist_ok=True)
        rows = [json.dumps({"step": float(n), "learning/loss": 1.5, "perf/step_time_seconds": 2.0}) for n in steps]
        (folder / f"metrics_step_{steps[0]:06}_to_step_{steps[-1]:06}.txt").write_text("\n".join(rows))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_in(tmp_path) as api:
        yield World(api, tmp_path / "out")


def test_progress_comes_from_the_log_of_the_pod_that_prints_steps(world: World) -> None:
    for name in ("a", "b"):
        world.run(name)
        world.speaks(name, 1, 2, 3)
    observations = world.read()
    for name in ("a", "b"):
        progress = observations[name].progress
        assert progress is not None
        assert (progress.source, progress.step, progress.loss, progress.step_seconds) == ("log", 3, 2.5, 0.5)
        assert (progress.tflops_per_device, progress.phase, progress.said_at) == (
            400.0,
            "training",
            "2026-11-21T10:00:00.000000002Z",
        )
        assert observations[name].unread == ()
    lists = [request for request in world.api.server.asked("/pods") if "/log" not in request.path]
    assert [request.path for request in lists] == ["/api/v1/namespaces/default/pods"]  # for all that print
    assert {request.query["tailLines"] for request in world.api.server.asked("/log")} == {str(TAIL)}


def test_progress_of_a_log_has_the_start_of_its_container(world: World) -> None:
    world.run("a")
    running = [
        {"name": name, "state": {"running": {"startedAt": started_at}}}
        for name, started_at in (("jax-tpu", NOW), ("x", ""))
    ]
    pod = world.runs.pod("a", containerStatuses=running)["metadata"]["name"]
    world.api.standin.logs.say(pod, STEP.format(n=1))
    progress = world.read()["a"].progress
    assert progress is not None
    assert (progress.began_at, progress.read_at) == (NOW, NOW)


@pytest.mark.parametrize(
    ("logged", "saved", "expected"),
    [((1, 2), 4, (2, 4)), ((1, 2), None, (2, None)), ((1, 2, 3, 4), 9, (4, None)), ((), 4, (None, 4))],
    ids=["it ends early", "nothing is saved", "its last step is there", "it found its last checkpoint"],
)
def test_the_output_of_a_completed_run_is_read_only_if_its_log_ends_before_the_last_step(
    world: World, logged: tuple[int, ...], saved: int | None, expected: tuple[int | None, int | None]
) -> None:
    world.run("a", status=ended("Completed", "AllJobsCompleted"))
    world.speaks("a", *logged, phase="Succeeded")
    if saved:
        world.checkpoint("a", saved)
    run_read = world.read([replace(observation, steps=4) for observation in world.seen()])["a"]
    assert run_read.progress is not None
    assert (run_read.progress.source, run_read.progress.step, run_read.progress.saved_step) == ("log", *expected)
    assert run_read.unread == ()


def test_the_output_of_a_running_run_is_not_read(world: World) -> None:
    world.run("a")
    world.speaks("a", 1, 2)
    world.denied = True
    run_read = world.read([replace(observation, steps=4) for observation in world.seen()])["a"]
    assert (run_read.unread, run_read.progress and run_read.progress.step) == ((), 2)


def test_a_pod_without_a_log_that_ran_out_of_memory_is_part_of_the_observation(world: World) -> None:
    """The list of first pods contains it, and no other list does."""
    world.run("a")
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": NOW}}
    pod = world.runs.pod("a", phase="Failed", containerStatuses=[{"name": "jax-tpu", "state": killed}])
    world.run("b")
    world.speaks("b", 1)
    observations = world.read([replace(observation, pods=None) for observation in world.seen()])
    assert [observation.name for observation in observations["a"].pods or ()] == [pod["metadata"]["name"]]
    assert observations["b"].pods is None


@pytest.mark.parametrize(
    ("annotated", "submitted", "was", "expected"),
    [
        ("gs://a", "gs://b", "gs://c", "gs://a"),
        (None, "gs://b", "gs://c", "gs://b"),
        (None, None, "gs://c", "gs://c"),
        (None, None, None, None),
    ],
)
def test_the_output_is_that_of_the_jobset_then_of_the_submission_then_of_the_last_known_jobset(
    world: World, annotated: str | None, submitted: str | None, was: str | None, expected: str | None
) -> None:
    def held(output: str | None) -> RunObject | None:
        run_object = RunObject(name="a", namespace="d", uid="u", created_at="", run_name="a", ours=True, output=output)
        return run_object if output else None

    observation = Observation(
        run_name="a", target="xpk", observed_at=NOW, cluster="here", jobset=held(annotated), was=held(was)
    )
    outputs = {"a": submitted} if submitted else {}
    world.seen()
    assert world.source(outputs=outputs).output(observation) == expected


def test_a_run_that_has_not_started_has_no_progress(world: World) -> None:
    world.runs.queued("waits")
    world.run("starts", status={"replicatedJobsStatus": [{"name": "slice-job", "active": 2}]})
    observations = world.read()
    assert all(observation.progress is None and observation.unread == () for observation in observations.values())
    assert world.api.server.asked("/log") == []


def test_a_log_without_steps_has_the_phase_starting(world: World) -> None:
    world.run("a")
    world.speaks("a")
    progress = world.read()["a"].progress
    assert progress is not None
    assert (progress.phase, progress.step) == ("starting", None)


def test_a_longer_tail_is_read_if_the_short_one_has_no_step(world: World) -> None:
    world.run("a")
    world.speaks("a", 41, 42)
    pod = world.runs.pod("a")["metadata"]["name"]
    for _ in range(TAIL):
        world.api.standin.logs.say(pod, "a warning that says nothing")
    progress = world.read()["a"].progress
    assert progress is not None
    assert progress.step == 42
    assert [request.query["tailLines"] for request in world.api.server.asked("/log")] == [str(TAIL), str(LONG_TAIL)]
    world.api.standin.logs.say(pod, *(["a warning that says nothing"] * LONG_TAIL))
    progress = world.read()["a"].progress
    assert progress is not None
    assert (progress.step, len(world.api.server.asked("/log"))) == (None, 4)


@pytest.mark.parametrize(
    ("began_at", "lines", "state"),
    [
        ("2026-11-21T09:00:00Z", (), ("training", "progress-not-read")),
        ("2026-11-21T09:00:00Z", ("a warning",), ("training", "progress-not-read")),
        ("2026-11-21T09:00:00Z", ("XPK Start: Sat Nov 21", "a warning"), ("stalled", "no-output")),
        ("2026-11-21T11:58:00Z", (), ("starting", "trainer-starting")),
    ],
    ids=["empty", "no line of the trainer", "nothing since its start", "just started"],
)
def test_a_log_that_was_just_rotated_does_not_mean_that_the_run_starts(
    world: World, began_at: str, lines: tuple[str, ...], state: tuple[str, str]
) -> None:
    world.run("a")
    running = {"name": "jax-tpu", "restartCount": 0, "state": {"running": {"startedAt": began_at}}}
    pod = world.runs.pod("a", containerStatuses=[running])["metadata"]["name"]
    world.api.standin.logs.say(pod, *lines)
    run_read = world.read()["a"]
    status = classify(run_read)
    assert (status.state, status.reason) == state
    world.metrics("a", 399, 400)
    progress = world.read()["a"].progress
    assert progress is not None
    assert (progress.step == 400) == (status.reason == "progress-not-read")


def test_a_node_whose_clock_is_behind_does_not_make_its_run_stalled(world: World) -> None:
    """By an hour: its pod was bound at 11:00 and acknowledged at 10:00; the line of 11:59:50 has the time 10:59:50."""
    world.run("a")
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T11:00:00Z"}
    running = {"name": "jax-tpu", "restartCount": 0, "state": {"running": {"startedAt": "2026-11-21T10:01:00Z"}}}
    status = {"startTime": "2026-11-21T10:00:00Z", "conditions": [bound], "containerStatuses": [running]}
    pod = world.runs.pod("a", **status)["metadata"]["name"]
    world.api.standin.logs.say(pod, *(STEP.format(n=n) for n in (1, 2, 3)), second=3590)
    run_read = world.read()["a"]
    assert run_read.progress is not None
    assert (run_read.progress.began_at, run_read.progress.said_at) == ("2026-11-21T11:01:00Z", "2026-11-21T11:59:50Z")
    assert classify(run_read).state == "training"


def test_not_asked_marks_the_log_only_of_runs_that_may_have_one(world: World) -> None:
    world.run("a")
    (observation,) = world.seen()
    assert not_asked(observation).unread == (Unread(what="log", why=NOT_ASKED, passed_over=True),)
    assert not_asked(replace(observation, jobset=None)).unread == (
        Unread(what="record", why=NOT_ASKED, passed_over=True),
    )
    waits = queued("b")
    assert not_asked(waits) == waits


@pytest.mark.loopback
def test_a_slow_log_is_unread_after_the_deadline(world: World) -> None:
    for name in ("quick", "slow"):
        world.run(name)
        world.speaks(name, 5)
    observations = world.seen()
    world.api.server.fail("slow-slice-job.*/log", code=0, delay_s=60.0)
    began = time.monotonic()
    found = world.read(observations, deadline_s=2.0)
    assert time.monotonic() - began < 30.0
    assert found["quick"].progress is not None
    assert found["slow"].progress is None
    assert found["slow"].unread == (Unread(what="log", why=NOT_READ, passed_over=True),)


@pytest.mark.loopback
@pytest.mark.parametrize("slow", ["metrics", "checkpoints"])
def test_a_slow_bucket_is_unread_and_keeps_the_progress_of_the_log(world: World, slow: What) -> None:
    never = threading.Event()

    class Hangs(LocalObjects):
        def names(self, folder: str) -> tuple[str, ...]:
            if folder.endswith(slow):
                never.wait(60)
            return ()

    for name in ("a", "c"):
        world.runs.admitted(name, status=ended("Completed", "AllJobsCompleted"))
    world.speaks("a", 1, 2, phase="Succeeded")
    world.checkpoint("a", 1)
    observations_before = [replace(observation, steps=6) for observation in world.seen()]
    gone = Observation(run_name="b", target="xpk", observed_at=NOW, cluster="here", steps=6)
    outputs = {name: str(world.output) for name in ("a", "b", "c")}
    source = world.source(Hangs(), outputs=outputs)
    first, silent, second = read_progress([*observations_before, gone], source=source, deadline_s=1.0)
    never.set()
    assert [observation.what for observation in silent.unread] == ["log", slow]
    assert first.progress is not None
    assert first.progress.step == 2
    assert [(observation.what, observation.why) for observation in first.unread] == [(slow, NOT_READ)]
    assert [(observation.what, observation.why) for observation in second.unread] == [(slow, NOT_READ)]


@pytest.mark.parametrize(
    "fault", [{"code": 500}, {"action": "cut-before"}, {"code": 403, "message": "x cannot get resource y"}]
)
def test_a_failed_log_leaves_the_progress_of_metrics_and_checkpoints(world: World, fault: dict[str, Any]) -> None:
    world.run("a")
    world.speaks("a", 1)
    world.metrics("a", 98, 99)
    world.checkpoint("a", 50)
    world.api.server.fail("/log", times=9, **fault)
    run_read = world.read()["a"]
    assert run_read.progress is not None
    assert (run_read.progress.source, run_read.progress.step, run_read.progress.saved_step) == ("metrics", 99, 50)
    assert [source.what for source in run_read.unread] == ["log"]


def test_metrics_of_an_older_process_with_higher_steps_are_not_used(world: World) -> None:
    """The run resumed from the checkpoint of step 50, and its log is gone."""
    world.run("a")
    for age, steps in ((300, range(100, 200)), (200, range(200, 300)), (0, range(50, 100))):
        world.metrics("a", *steps)
        path = next((world.output / "a" / "metrics").glob(f"metrics_step_{steps[0]:06}_*"))
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    run_read = world.read()["a"]
    assert run_read.progress is not None
    assert (run_read.progress.source, run_read.progress.step) == ("metrics", 99)


def test_checkpoints_give_the_progress_without_log_and_metrics(world: World) -> None:
    world.run("a", status=ended("Completed", "AllJobsCompleted"))
    world.checkpoint("a", 1000)
    (world.output / "a" / "checkpoints" / "1001.orbax-checkpoint-tmp").mkdir()
    progress = world.read()["a"].progress
    assert progress is not None
    assert (progress.source, progress.step, progress.saved_step) == ("checkpoints", None, 1000)


def test_a_forbidden_bucket_is_unread(world: World) -> None:
    world.run("a", status=ended("Completed", "AllJobsCompleted"))
    world.denied = True
    run_read = world.read()["a"]
    assert run_read.progress is None
    assert [source.what for source in run_read.unread] == ["log", "metrics", "checkpoints"]
    gone = replace(run_read, jobset=None, was=run_read.jobset, unread=())
    assert [source.what for source in world.read([gone])["a"].unread] == ["record", "metrics", "checkpoints"]


def test_a_run_that_found_its_last_checkpoint_has_no_step(world: World) -> None:
    world.run("a", status=ended("Completed", "AllJobsCompleted"))
    world.speaks("a", phase="Succeeded")
    world.checkpoint("a", 1000)
    progress = world.read()["a"].progress
    assert progress is not None
    assert (progress.source, progress.step, progress.saved_step) == ("log", None, 1000)


def test_a_run_that_failed_after_its_last_step_was_saved_has_succeeded(world: World) -> None:
    """It exited with 1 before it printed that the save had finished."""
    world.run("a", status=ended("Failed", "FailJobSetFailurePolicyAction"))
    world.speaks("a", 999, 1000, phase="Failed")
    world.checkpoint("a", 1000)
    run_read = world.read()["a"]
    assert run_read.progress is not None
    assert (run_read.progress.source, run_read.progress.step, run_read.progress.saved_step) == ("log", 1000, 1000)
    status = classify(run_read)
    assert (status.state, status.reason) == ("succeeded", "after-last-step")


def test_the_bucket_is_not_read_for_a_failed_run(world: World) -> None:
    world.run("a", status=ended("Failed", "ReachedMaxRestarts"))
    world.speaks("a", 1, phase="Failed")
    world.denied = True
    run_read = world.read()["a"]
    assert run_read.unread == ()
    assert run_read.progress is not None


def test_the_pod_of_the_newer_attempt_gives_the_progress(world: World) -> None:
    world.run("a")
    world.speaks("a", 9)
    newer = world.runs.pod("a", tag="zzzzz", attempt=1)["metadata"]["name"]
    world.api.standin.logs.say(newer, STEP.format(n=4))
    progress = world.read()["a"].progress
    assert progress is not None
    assert progress.step == 4


def test_a_deleted_run_has_progress_from_its_output(world: World) -> None:
    world.seen()
    gone = Observation(
        run_name="a", target="xpk", observed_at=NOW, cluster="here", steps=10, record=Recorded(outcome="created")
    )
    world.checkpoint("a", 10)
    source = world.source(outputs={"a": str(world.output)})
    attempt = Attempt(number=1, started_at=NOW, spec_digest="ab", submitter="a" * 16)
    record = Record(run_name="a", steps=10, target="xpk", output=str(world.output), attempts=(attempt,))
    begun = source.store.begin(record)
    assert isinstance(begun, RecordRef)
    source.store.finish(begun, AttemptFacts(outcome="cancelled", at=NOW))
    (observation,) = read_progress([gone], source=source, deadline_s=10.0)
    assert observation.record is not None
    assert observation.record.outcome == "cancelled"
    assert observation.progress is not None
    assert observation.progress.saved_step == 10


def test_a_deleted_run_has_the_record_of_its_own_attempt(world: World) -> None:
    world.seen()
    source = world.source(outputs={"a": str(world.output)})
    outcomes: tuple[Outcome, ...] = ("failed", "cancelled")
    attempts = (Attempt(number=n, started_at=NOW, spec_digest="ab", submitter="a" * 16) for n in (1, 2))
    for observation, outcome in zip(attempts, outcomes, strict=True):
        begun = source.store.begin(
            Record(run_name="a", steps=10, target="xpk", output=str(world.output), attempts=(observation,))
        )
        assert isinstance(begun, RecordRef)
        source.store.finish(begun, AttemptFacts(outcome=outcome, at=NOW, uid=f"u-{observation.number}"))
    gone = Observation(run_name="a", target="xpk", observed_at=NOW, cluster="here")
    gone_twice = [replace(gone, record=Recorded(outcome="created", uid=f"u-{n}")) for n in (1, 2)]
    observations = read_progress([*gone_twice, gone], source=source, deadline_s=10.0)
    assert [observation.record and observation.record.outcome for observation in observations] == [
        "failed",
        "cancelled",
        "cancelled",
    ]


def test_an_evaluation_whose_verdict_is_failed_has_failed(world: World) -> None:
    """Its pods exit with 0; the record of its attempt has the verdict."""
    jobset = world.run("a-evaluate", status=ended("Completed", "AllJobsCompleted"))
    jobset["metadata"]["labels"][WORK_LABEL] = "evaluate"
    (observation,) = world.seen()
    source = world.source()
    for number, outcome in ((1, "failed"), (2, "completed")):
        attempt = Attempt(number=number, started_at=NOW, spec_digest="ab", submitter="a" * 16)
        record = Record(run_name="a-evaluate", target="xpk", output=str(world.output), attempts=(attempt,))
        begun = source.store.begin(record)
        assert isinstance(begun, RecordRef)
        uid = observation.uid if number == 1 else "u-2"
        source.store.finish(begun, AttemptFacts(outcome=outcome, at=NOW, uid=uid, reason="verdict failed"))
    (observed,) = read_progress([observation], source=source, deadline_s=10.0)
    status = classify(observed)
    assert (status.state, status.reason) == ("failed", "verdict-failed")


def test_a_deleted_run_without_a_known_output_has_its_index_entry(world: World) -> None:
    world.seen()
    recorded = Recorded(outcome="created")
    gone = Observation(run_name="a", target="xpk", observed_at=NOW, cluster="here", record=recorded)
    (observation,) = read_progress([gone], source=world.source(), deadline_s=10.0)
    assert (observation.record, observation.progress, observation.unread) == (recorded, None, ())


def test_tells_is_false_for_unread_jobsets_and_local_runs() -> None:
    jobset = RunObject(name="a", namespace="d", uid="u", created_at="", run_name="a", ours=True, terminal="Failed")
    observation = Observation(run_name="a", target="xpk", observed_at=NOW, jobset=jobset)
    assert may_have_progress(observation)
    assert not may_have_progress(replace(observation, unread=(Unread(what="jobsets", why="x"),)))
    assert not may_have_progress(replace(observation, target="local"))
