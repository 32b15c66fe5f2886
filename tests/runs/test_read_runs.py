"""Runs of several sources: clusters that answer, clusters that do not, this machine, and deleted JobSets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.fakes.clusters import ClusterApi, source_call, standing_in
from tests.fakes.kuberuns import PARTLY_UP, RUNNING, Runs, ended
from tests.localruns import FakeTrainer, local_plan
from tests.replacing import replace
from tests.until import until
from xsft.base.amounts import seconds_between
from xsft.base.errors import Unreachable
from xsft.cluster.api import Patience
from xsft.cluster.cluster import Cluster, connect
from xsft.cluster.observation import Observation, Status, Unread
from xsft.launch.local_run import run_local
from xsft.machine.objects import LocalObjects
from xsft.machine.parallel import start
from xsft.records.index import IndexEntry, keep_entry
from xsft.records.record import Attempt, AttemptFacts, Record
from xsft.records.record import ClusterAddress as Where
from xsft.records.record_files import RecordStore
from xsft.runs.classify import classify
from xsft.runs.lastknown import remember
from xsft.runs.lookup import RunsRead, fold
from xsft.runs.read_progress import NOT_ASKED, TAIL
from xsft.runs.read_runs import SourceCall, read_runs
from xsft.runs.read_scope import ReadLimits, ReadScope, lacks_progress
from xsft.runs.rows import row_of

pytestmark = pytest.mark.loopback

NOW = "2026-11-21T12:00:00+00:00"
NOTHING = ReadLimits(progress_s=0.0)


class World:
    def __init__(self, api: ClusterApi, folder: Path) -> None:
        self.api, self.folder = api, folder
        self.runs = Runs(api.standin.objects)
        self.store = RecordStore(state=folder / "state", objects_at=lambda _: LocalObjects(), now=lambda: NOW)
        self.output = str(folder / "out")

    def connect(self) -> Cluster:
        patience = Patience(tries=1, read_timeout_s=60.0)
        return connect(Where(context=self.api.context), here=self.api.here, patience=patience)

    def asked(self, name: str = "stand-in") -> SourceCall:
        return source_call(self.connect, name=name)

    def gather(
        self,
        *source_calls: SourceCall,
        names: Iterable[str] = (),
        everything: bool = False,
        limits: ReadLimits = NOTHING,
        **how: Any,
    ) -> RunsRead:
        index = self.store.local_index()
        scope = ReadScope(names=frozenset(names), everything=everything, limits=limits, now=self.store.now())
        return read_runs(source_calls or (self.asked(),), scope=scope, store=self.store, index=index, **how)

    def submitted(self, name: str, *, uid: str | None = "u-1", jobset: str | None = None, **entry: Any) -> None:
        """From this machine."""
        where = Where(context="stand-in")
        index_entry = IndexEntry(
            run_name=name,
            target="xpk",
            output=self.output,
            steps=1000,
            mode="mcjax",
            jobset=jobset or name,
            namespace="default",
            cluster=where,
            uid=uid,
            updated_at=NOW,
        )
        keep_entry(self.store.state / "runs", replace(index_entry, **entry))

    def silence(self) -> None:
        self.api.server.fail("/jobsets", code=503, times=99)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_in(tmp_path) as api:
        yield World(api, tmp_path)


def by_name(runs_read: RunsRead) -> dict[str, Observation]:
    return {observation.run_name: observation for observation in runs_read.observations}


def states(runs_read: RunsRead) -> dict[str, Status]:
    return {name: classify(observation) for name, observation in by_name(runs_read).items()}


def remembered(world: World, *, limits: ReadLimits = NOTHING) -> tuple[Observation, ...]:
    """Return the runs as `status` keeps them after a read."""
    observations = world.gather(limits=limits).observations
    remember(world.store.state, [(observation, classify(observation)) for observation in observations], now=NOW)
    return observations


@pytest.mark.early
def test_gather_combines_runs_of_a_cluster_and_of_this_machine(world: World) -> None:
    world.runs.admitted("on-cluster")
    plan = local_plan(world.folder / "here")
    run_local(plan, machine=FakeTrainer(folder=world.folder).machine(), on_event=lambda _: None)
    keep_entry(
        world.store.state / "runs",
        IndexEntry(run_name=plan.run_name, target="local", output=plan.run.output or "", updated_at=NOW),
    )
    runs_read = world.gather()
    assert set(by_name(runs_read)) == {"on-cluster", plan.run_name}
    assert (runs_read.problems, runs_read.answered, runs_read.whole) == ((), True, True)
    assert set(by_name(world.gather(local=False))) == {"on-cluster"}
    assert set(by_name(world.gather(names=["on-cluster"]))) == {"on-cluster"}
    assert set(by_name(world.gather(names=["on"]))) == set()


def test_runs_of_one_name_in_two_folders_are_both_shown(world: World) -> None:
    for name in ("a", "b"):
        plan = local_plan(world.folder / name)
        (world.folder / name).mkdir(exist_ok=True)
        run_local(plan, machine=FakeTrainer(folder=world.folder / name).machine(), on_event=lambda _: None)
        output = plan.run.output or ""
        keep_entry(
            world.store.state / "runs",
            IndexEntry(run_name=plan.run_name, target="local", output=output, updated_at=NOW),
        )
    observations = world.gather().observations
    assert len({observation.output for observation in observations}) == len(observations) == 2
    assert len(fold(observations, classify=classify, now=NOW)) == 2
    folder = f"{output}/{plan.run_name}"
    assert [observation.output for observation in world.gather(names=[folder]).observations] == [output]


def test_runs_of_a_silent_cluster_have_their_last_known_state(world: World) -> None:
    world.runs.admitted("gemma")
    remembered(world)
    world.submitted("since", uid="u-2")
    world.silence()
    runs_read = world.gather()
    assert states(runs_read)["gemma"] == Status(state="training", reason="progress-not-read", evidence=("jobset",))
    assert by_name(runs_read)["gemma"].observed_at == NOW
    assert states(runs_read)["since"] == Status(state="unknown", reason="unreachable")
    assert (runs_read.answered, runs_read.whole) == (True, False)
    (problem,) = runs_read.problems
    assert (problem.severity, problem.id) == ("warning", "cluster-error")
    assert problem.message.startswith("stand-in: ")


def test_a_run_deleted_before_the_cluster_became_silent_is_not_shown_as_running(world: World) -> None:
    """Another user cancelled the run; then the cluster stops answering."""
    world.runs.admitted("gemma")
    world.runs.admitted("other")
    remembered(world)
    jobsets = world.api.standin.objects.of("jobset.x-k8s.io/jobsets")
    del jobsets[next(key for key in jobsets if "gemma" in key)]
    world.gather()
    world.silence()
    assert set(by_name(world.gather())) == {"other"}


def test_the_last_known_running_state_is_not_used_for_a_deleted_run(world: World) -> None:
    world.runs.admitted("gemma")
    remembered(world)
    jobsets = world.api.standin.objects.of("jobset.x-k8s.io/jobsets")
    (uid,) = [jobset_object["metadata"]["uid"] for jobset_object in jobsets.values()]
    world.submitted("gemma", uid=uid)
    jobsets.clear()
    runs_read = world.gather()
    assert by_name(runs_read)["gemma"].last_known is None
    assert states(runs_read)["gemma"].reason == "jobset-gone"


def test_a_silent_cluster_without_known_runs_gives_no_runs(world: World) -> None:
    world.silence()
    runs_read = world.gather()
    assert (runs_read.observations, runs_read.answered, runs_read.whole) == ((), False, False)


def test_a_silent_cluster_does_not_hide_another(world: World) -> None:
    world.runs.admitted("gemma")

    def nobody() -> Cluster:
        raise Unreachable("no route", fix="dial in", id="unreachable")

    runs_read = world.gather(world.asked(), source_call(nobody, name="other"))
    assert set(by_name(runs_read)) == {"gemma"}
    assert (runs_read.answered, runs_read.whole) == (True, False)
    assert [problem.message for problem in runs_read.problems] == ["other: no route"]


def test_an_expired_login_is_a_problem_with_a_fix(world: World) -> None:
    world.api.expire_login()
    (problem,) = world.gather().problems
    assert problem.id == "login-expired"
    assert problem.fix


def test_a_deleted_jobset_is_known_from_its_record(world: World) -> None:
    where = {"cluster": Where(context="stand-in"), "namespace": "default"}
    attempt = Attempt(number=1, outcome="submitting", submitter="a" * 16, jobset="gone", started_at=NOW, **where)  # type: ignore[arg-type]
    record = Record(run_name="gone", steps=1000, target="xpk", output=world.output, attempts=(attempt,))
    ref = world.store.begin(record)
    world.store.finish(ref, AttemptFacts(outcome="created", at=NOW, uid="u-1", submitter="a" * 16))  # type: ignore[arg-type]
    assert states(world.gather())["gone"].reason == "jobset-gone"
    world.store.finish(ref, AttemptFacts(outcome="cancelled", at=NOW, submitter="b" * 16))  # type: ignore[arg-type]
    assert states(world.gather(limits=ReadLimits()))["gone"] == Status(state="cancelled", evidence=("record",))


def test_a_run_that_ended_before_its_deletion_keeps_its_state(world: World) -> None:
    jobset_object = world.runs.jobset("gemma", status=ended("Failed", "ReachedMaxRestarts"))
    remembered(world)
    world.submitted("gemma", uid=jobset_object["metadata"]["uid"])
    world.api.world.delete("gemma")
    asked_before = len(world.api.server.seen)
    status = states(world.gather(limits=ReadLimits()))["gemma"]
    assert (status.state, status.reason) == ("failed", "trainer-failed")
    assert not [request for request in world.api.server.seen[asked_before:] if "/log" in request.path]


def test_a_cancelled_run_keeps_its_last_known_fields(world: World) -> None:
    """Its JobSet and pods are gone, and its record says that it was cancelled."""
    made = world.runs.admitted("gemma")
    uid = made["metadata"]["uid"]
    where = {"cluster": Where(context="stand-in"), "namespace": "default"}
    attempt = Attempt(
        number=1, outcome="submitting", submitter="a" * 16, jobset="gemma", started_at=NOW, **where  # type: ignore[arg-type]
    )  # fmt: skip
    record = Record(run_name="gemma", steps=1000, target="xpk", mode="mcjax", output=world.output, attempts=(attempt,))
    created = AttemptFacts(outcome="created", at=NOW, uid=uid, submitter="a" * 16)  # type: ignore[arg-type]
    ref = world.store.finish(world.store.begin(record), created)
    pod = world.runs.pod("gemma")["metadata"]["name"]
    world.api.standin.logs.say(pod, "completed step: 42, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0")
    remembered(world, limits=ReadLimits())
    world.api.world.delete("gemma")
    del world.api.standin.objects.of("/pods")["default", pod]
    world.store.finish(ref, AttemptFacts(outcome="cancelled", at="2026-11-21T11:30:00+00:00", submitter="b" * 16))
    for _ in range(3):  # it is read from the record first, then remembered
        gemma = by_name(world.gather(limits=ReadLimits()))["gemma"]
        status = classify(gemma)
        row = row_of(gemma, status, now=NOW)
        assert (row.state, row.step, row.steps, row.loss, row.step_seconds) == ("cancelled", 42, 1000, 2.5, 0.5)
        assert (row.tpu, row.num_slices, row.mode, row.ended_at) == ("v6e-256", 2, "mcjax", "2026-11-21T11:30:00Z")
        remember(world.store.state, [(gemma, status)], now=NOW)
    assert not lacks_progress(gemma)


def test_a_deleted_run_shows_the_later_of_last_known_and_saved_step(world: World) -> None:
    made = world.runs.admitted("gemma")
    world.submitted("gemma", uid=made["metadata"]["uid"])
    pod = world.runs.pod("gemma")["metadata"]["name"]
    world.api.standin.logs.say(pod, "completed step: 42, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0")
    remembered(world, limits=ReadLimits())
    world.api.world.delete("gemma")
    checkpoints = Path(world.output) / "gemma" / "checkpoints"
    for step, expected in ((40, (42, 40)), (50, (42, 50))):
        (checkpoints / str(step)).mkdir(parents=True)
        (checkpoints / str(step) / "commit_success.txt").touch()
        (checkpoints / str(step) / "_CHECKPOINT_METADATA").touch()
        gemma = by_name(world.gather(limits=ReadLimits()))["gemma"]
        assert gemma.progress is not None
        assert (gemma.progress.step, gemma.progress.saved_step) == expected
        assert states(world.gather(limits=ReadLimits()))["gemma"].reason == "jobset-gone"


def test_the_state_before_a_restart_is_kept_from_an_earlier_gather(world: World) -> None:
    made = world.runs.admitted("gemma")
    pod = world.runs.pod("gemma")["metadata"]["name"]
    world.api.standin.logs.say(pod, "completed step: 42, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0")
    remembered(world, limits=ReadLimits())
    made["status"] = {**RUNNING, "restarts": 1}
    for _ in range(2):
        before = by_name(world.gather())["gemma"].before
        assert before is not None
        assert (before.at, before.state, before.step) == (NOW, "stalled", 42)  # its log is of another day
        remembered(world)


def test_the_reason_oom_killed_is_kept_after_its_pod_is_gone(world: World) -> None:
    """`status` reads only the pod that prints steps, and that pod may be gone the next time."""
    world.runs.admitted("gemma", status=ended("Failed", "ReachedMaxRestarts"))
    pod = world.runs.pod("gemma", phase="Failed")
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-21T11:30:00Z"}}
    pod["status"]["containerStatuses"] = [{"name": "jax-tpu", "state": killed}]
    world.api.standin.logs.say(pod["metadata"]["name"], "nothing")
    remembered(world, limits=ReadLimits())
    assert states(world.gather(limits=ReadLimits()))["gemma"].reason == "oom-killed"
    del world.api.standin.objects.of("/pods")["default", pod["metadata"]["name"]]
    remembered(world, limits=ReadLimits())
    assert states(world.gather(limits=ReadLimits()))["gemma"].reason == "oom-killed"


def test_old_submissions_are_shown_only_if_named_or_everything_is_requested(world: World) -> None:
    world.submitted("old", updated_at="2026-11-01T00:00:00+00:00")
    assert by_name(world.gather()) == {}
    assert set(by_name(world.gather(names=["old"]))) == {"old"}
    assert set(by_name(world.gather(everything=True))) == {"old"}


def test_a_later_attempt_under_the_same_name_is_shown_once(world: World) -> None:
    world.runs.admitted("gemma")
    world.submitted("gemma", uid="another-uid")
    assert len(world.gather().observations) == 1


def test_a_run_named_like_an_attempt_does_not_hide_a_deleted_run(world: World) -> None:
    world.runs.admitted("gemma-2")
    world.submitted("gemma", jobset="gemma-2", uid="another-uid")
    assert set(by_name(world.gather())) == {"gemma", "gemma-2"}


def test_submissions_to_another_place_are_not_shown(world: World) -> None:
    world.submitted("a", cluster=Where(context="elsewhere"))
    world.submitted("b", namespace="other")
    assert world.gather().observations == ()


def test_the_log_of_an_ended_run_is_read_once(world: World) -> None:
    world.runs.admitted("gemma", status=ended("Completed", "AllJobsCompleted"))
    pod = world.runs.pod("gemma", phase="Succeeded")["metadata"]["name"]
    step = "completed step: 1000, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0"
    world.api.standin.logs.say(pod, step)
    remembered(world, limits=ReadLimits())
    again = world.gather(limits=ReadLimits())
    assert states(again)["gemma"].state == "succeeded"
    assert len(world.api.server.asked("/log")) == 1


def test_a_saved_step_before_the_log_tail_is_read_from_a_longer_tail_or_known(world: World) -> None:
    """For a named run, more of the log is read; for others, the step is known from an earlier read."""
    world.runs.admitted("gemma")
    pod = world.runs.pod("gemma")["metadata"]["name"]
    say = partial(world.api.standin.logs.say, pod)
    say("Finished saving checkpoint (finalized tmp dir) to `/out/gemma/checkpoints/100`")
    for step in range(101, 101 + TAIL):
        say(f"completed step: {step}, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0")

    def saved(**how: Any) -> int | None:
        progress = by_name(world.gather(limits=ReadLimits(), **how))["gemma"].progress
        assert progress is not None
        assert progress.step == 100 + TAIL
        return progress.saved_step

    assert saved() is None
    assert saved(names=["gemma"]) == 100
    runs_read = world.gather(limits=ReadLimits(), names=["gemma"])
    remember(
        world.store.state, [(observation, classify(observation)) for observation in runs_read.observations], now=NOW
    )
    assert saved() == 100


def test_an_ended_run_skipped_for_time_is_read_at_the_next_call(world: World) -> None:
    """Meanwhile its earlier progress is shown, but not as its last."""
    jobset = world.runs.admitted("gemma")
    pod = world.runs.pod("gemma")["metadata"]["name"]

    def says(step: int) -> None:
        line = f"completed step: {step}, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0"
        world.api.standin.logs.say(pod, line)

    def step(**limits: Any) -> int | None:
        (observation,) = remembered(world, limits=ReadLimits(**limits))
        return observation.progress.step if observation.progress else None

    says(42)
    assert step() == 42
    says(55)
    jobset["status"] = ended("Failed", "x", at=NOW)
    assert step(ended_at_most=0) == 42
    assert step(ended_at_most=0) == 42
    assert step() == 55
    assert step(ended_at_most=0) == 55
    logs_before = len(world.api.server.asked("/log"))
    assert step() == 55
    assert len(world.api.server.asked("/log")) == logs_before, "it is not read again"


@pytest.mark.parametrize(
    ("how", "step", "state"),
    [("Failed", 42, ("failed", "jobset-failed")), ("Completed", None, ("unknown", "steps-not-read"))],
)
def test_earlier_progress_is_shown_after_the_log_is_deleted(
    world: World, how: str, step: int | None, state: tuple[str, str]
) -> None:
    jobset = world.runs.admitted("gemma")
    pod = world.runs.pod("gemma")["metadata"]["name"]
    world.api.standin.logs.say(pod, "completed step: 42, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0")
    remembered(world, limits=ReadLimits())
    jobset["status"] = ended(how, "x")
    del world.api.standin.objects.of("/pods")["default", pod]
    runs_read = world.gather(limits=ReadLimits())
    progress = by_name(runs_read)["gemma"].progress
    assert (progress.step if progress else None) == step
    assert (states(runs_read)["gemma"].state, states(runs_read)["gemma"].reason) == state


@pytest.mark.parametrize(
    ("admitted_at", "restarts", "step"),
    [("2026-11-21T11:00:00Z", 0, 42), ("2026-11-21T12:00:01Z", 0, None), ("2026-11-21T11:00:00Z", 1, None)],
    ids=["pod lost", "admitted again since", "restarted since"],
)
def test_a_run_that_lost_a_pod_keeps_the_step_it_had_reached(
    world: World, admitted_at: str, restarts: int, step: int | None
) -> None:
    jobset = world.runs.admitted("gemma")
    pod = world.runs.pod("gemma")["metadata"]["name"]
    world.api.standin.logs.say(pod, "completed step: 42, seconds: 0.5, total_weights: 84, loss: 2.5, lm_loss: 0.0")
    remembered(world, limits=ReadLimits())
    (workload,) = world.api.standin.objects.of("kueue.x-k8s.io/workloads").values()
    for condition in workload["status"]["conditions"]:
        condition["lastTransitionTime"] = admitted_at
    jobset["status"] = {**PARTLY_UP, "restarts": restarts}
    del world.api.standin.objects.of("/pods")["default", pod]
    runs_read = world.gather(limits=ReadLimits())
    progress = by_name(runs_read)["gemma"].progress
    assert (progress.step if progress else None) == step
    assert states(runs_read)["gemma"].state == "starting"


def test_two_namespaces_of_one_cluster_are_both_read(world: World) -> None:
    world.runs.admitted("gemma")
    elsewhere = source_call(world.connect, namespace="empty")
    assert set(by_name(world.gather(world.asked(), elsewhere))) == {"gemma"}
    assert set(by_name(world.gather(elsewhere, world.asked()))) == {"gemma"}


def test_the_log_limits_for_active_and_ended_runs_are_obeyed(world: World) -> None:
    for name, status in (("a-ended", ended("Failed", "x", at=NOW)), ("b-going", None), ("c-ended-long-ago", None)):
        world.runs.admitted(name, status=status)
        world.api.standin.logs.say(world.runs.pod(name)["metadata"]["name"], "nothing")
    old = ended("Failed", "x", at="2026-11-01T00:00:00Z")
    world.runs.admitted("c-ended-long-ago", status=old)
    observations = by_name(world.gather(limits=ReadLimits(at_most=1, ended_at_most=0)))
    assert {name for name, observation in observations.items() if observation.progress} == {"b-going"}
    assert observations["a-ended"].unread == (Unread(what="log", why=NOT_ASKED, passed_over=True),)
    observations = by_name(world.gather(limits=ReadLimits(at_most=0, ended_at_most=1)))
    assert {name for name, observation in observations.items() if observation.progress} == {"a-ended"}
    assert observations["b-going"].unread == (Unread(what="log", why=NOT_ASKED, passed_over=True),)
    assert observations["c-ended-long-ago"].unread == ()
    named = by_name(world.gather(names=["c-ended-long-ago"], limits=ReadLimits()))
    assert named["c-ended-long-ago"].progress is not None


def test_fewer_logs_are_read_if_not_all_can_be(world: World) -> None:
    for i in range(6):
        world.runs.admitted(f"run-{i}")
        world.api.standin.logs.say(world.runs.pod(f"run-{i}")["metadata"]["name"], "nothing")

    def read(**limits: Any) -> int:
        observations = by_name(world.gather(limits=ReadLimits(if_more=2, **limits)))
        unread = [observation for observation in observations.values() if observation.unread]
        assert {observation.unread[0].why for observation in unread} <= {NOT_ASKED}
        return len(observations) - len(unread)

    assert read(at_most=4) == 2
    assert read(at_most=6) == 6, "all of them can be shown"


def test_an_earlier_attempt_is_kept_although_only_the_log_of_the_newest_is_read(world: World) -> None:
    world.runs.admitted("gemma", status=ended("Failed", "x", at="2026-11-01T00:00:00Z"))
    world.runs.admitted("gemma-2", run="gemma")
    world.runs.admitted("other")
    observations = world.gather(limits=ReadLimits(at_most=1, progress_s=20)).observations
    assert sorted(observation.jobset.name for observation in observations if observation.jobset) == [
        "gemma",
        "gemma-2",
        "other",
    ]


def test_first_pods_are_requested_once_before_all_lists_have_arrived(world: World) -> None:
    world.runs.admitted("gemma")
    world.api.standin.logs.say(world.runs.pod("gemma")["metadata"]["name"], "nothing")
    gate = threading.Event()
    world.api.server.fail("/workloads", code=0, do=partial(gate.wait, 20))
    future = start(partial(world.gather, limits=ReadLimits()))
    assert until(lambda: printers_asked(world)) == 1
    gate.set()
    assert by_name(future.result())["gemma"].progress is not None
    assert printers_asked(world) == 1


def printers_asked(world: World) -> int:
    return sum(
        "batch.kubernetes.io/job-completion-index=0" in unquote(request.line) for request in world.api.server.seen
    )


@pytest.mark.parametrize("days", [1, -1])
def test_times_are_of_the_clock_of_the_cluster(world: World, days: int) -> None:
    """This machine's clock is a day behind or ahead; no run gets older for that, also once its cluster is silent."""
    world.runs.admitted("gemma")
    world.api.server.skew_s = days * 86_400.0
    (observation,) = remembered(world)
    assert abs((seconds_between(NOW, observation.observed_at) or 0) - days * 86_400.0) < 60
    world.silence()
    for run_read in (observation, *world.gather().observations):
        row = row_of(run_read, classify(run_read), now=NOW)
        assert row.age_s is not None
        assert (row.evidence_age_s, row.age_s) == (0, pytest.approx(max(0, 7200 + days * 86_400.0), abs=60))


def test_an_object_of_another_shape_costs_one_row(world: World) -> None:
    world.runs.admitted("good")
    world.runs.admitted("odd")["spec"]["replicatedJobs"] = {"a": 1}
    bad_workload = world.runs.queued("waits")
    for workload in world.api.standin.objects.of("kueue.x-k8s.io/workloads").values():
        if workload["metadata"]["ownerReferences"][0]["name"] == "waits":
            workload["status"]["conditions"] = "none"
    runs_read = world.gather()
    assert bad_workload
    assert (runs_read.problems, runs_read.whole) == ((), True)
    assert {name: (status.state, status.reason) for name, status in states(runs_read).items()} == {
        "good": ("training", "progress-not-read"),
        "odd": ("unknown", "object-not-read"),
        "waits": ("queued", "workload-not-read"),
    }
    (unread,) = by_name(runs_read)["odd"].unread
    assert unread.why == "odd cannot be read: Expected `array`, got `object` - at `$.spec.replicatedJobs`"


def test_a_cluster_that_answers_too_late_is_shown_as_last_known(world: World) -> None:
    world.runs.admitted("gemma")
    remembered(world)
    gate = threading.Event()
    world.api.server.fail("/jobsets", code=0, do=partial(gate.wait, 20))
    runs_read = world.gather(limit_s=0.3)
    gate.set()
    assert states(runs_read)["gemma"].state == "training"
    (problem,) = runs_read.problems
    assert "no answer within" in problem.message or "too late" in problem.message
