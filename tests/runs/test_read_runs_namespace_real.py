"""Situations of a run on a real Kubernetes with JobSet and Kueue: what is read, and the state of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusterruns import CHIPS, HOSTS, JOBSETS, STEP, TOPOLOGY, Staged, place, selector
from tests.control_plane.api import Cluster as Real
from tests.observing import observe_cluster
from tests.until import until_next_second
from xsft.cluster.evidence import Evidence
from xsft.cluster.objects import JOB_UID_LABEL
from xsft.cluster.observation import Observation, Status
from xsft.cluster.sources import RunSource
from xsft.machine import clock
from xsft.machine.objects import LocalObjects
from xsft.records.index import IndexEntry, keep_entry
from xsft.records.record import ClusterAddress as Where
from xsft.records.record_files import RecordStore
from xsft.runs.causes import explain_state
from xsft.runs.classify import classify
from xsft.runs.lastknown import remember
from xsft.runs.lookup import FoldedRun, RunsRead
from xsft.runs.losing import loss_of
from xsft.runs.read_all import Runs
from xsft.runs.read_runs import read_runs
from xsft.runs.read_scope import ReadLimits, ReadScope
from xsft.runs.rows import row_of

pytestmark = pytest.mark.cluster
NOW = "2026-11-21T12:00:00Z"
STEPS = 1000
DEFAULTS = ReadLimits()
"""Asked for by the golden workload."""
SPOT = {"cloud.google.com/gke-spot": "true"}


def read_staged(staged: Staged, store: RecordStore, *, limits: ReadLimits = DEFAULTS) -> RunsRead:
    scope = ReadScope(names=frozenset(), everything=False, limits=limits, now=store.now())
    return read_runs([staged.asked()], scope=scope, store=store, index=store.local_index())


@pytest.fixture
def staged(real_cluster: Real, cluster_namespace: str) -> Staged:
    return Staged(real=real_cluster, namespace=cluster_namespace)


@pytest.fixture
def queued(staged: Staged) -> Iterator[Staged]:
    """With a queue of its own, for one run of two slices."""
    staged.queue()
    yield staged
    staged.real.delete_queue(staged.namespace)


def words(staged: Staged, name: str) -> str:
    """Return why Kueue has not reserved quota."""
    workload = staged.seen(name)[0].workload
    conditions = workload.conditions if workload else ()
    return "".join(c.message for c in conditions if c.type == "QuotaReserved")


def test_a_run_passes_its_states_from_start_to_success(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    staged.until("gemma", ("starting", "trainer-starting"))
    staged.says("gemma", "System Information: Jax Version: 0.11.0", "number parameters: 2.0 billion")
    staged.until("gemma", ("compiling", ""))
    staged.says("gemma", STEP.format(n=1), STEP.format(n=2), STEP.format(n=3))
    observation = staged.until("gemma", ("training", ""))
    assert observation.progress is not None
    assert (observation.progress.step, observation.progress.loss, observation.progress.step_seconds) == (3, 2.5, 0.5)
    assert observation.progress.said_at is not None
    assert observation.pods is not None
    assert len(observation.pods) == 2 * HOSTS
    assert {pod.status.phase for pod in observation.pods} == {"Running"}
    assert observation.jobset is not None
    assert (observation.jobset.tpu, observation.jobset.num_slices, observation.jobset.mode) == ("v6e-16", 2, "mcjax")
    assert [job.ready for job in observation.jobset.jobs] == [2]
    assert observation.workload is not None
    assert observation.workload.cluster_queue == "cluster-queue"
    staged.says("gemma", f"[process=0] Saving checkpoint at step {STEPS}")
    staged.until("gemma", ("saving", ""))
    staged.says("gemma", STEP.format(n=STEPS))
    staged.ends("gemma")
    done = staged.until("gemma", ("succeeded", ""))
    assert done.jobset is not None
    assert done.jobset.terminal == "Completed"


def test_a_run_whose_data_ended_has_failed(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    staged.says("gemma", STEP.format(n=7), "Exception in load_next_train_batch: You may have run out of training data.")
    staged.ends("gemma")
    staged.until("gemma", ("failed", "data-ended"))


def test_a_run_without_target_tokens_has_failed(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    nothing = STEP.replace("total_weights: 84, loss: 2.500", "total_weights: 0, loss: 0.000")
    staged.says("gemma", *(nothing.format(n=n) for n in (1, 2, 3)))
    staged.until("gemma", ("training", "no-target-tokens"))
    staged.says("gemma", nothing.format(n=STEPS - 2), nothing.format(n=STEPS - 1), nothing.format(n=STEPS))
    staged.ends("gemma")
    staged.until("gemma", ("failed", "no-target-tokens"))
    staged.explained("gemma", "no-target-tokens")


def test_one_failed_process_ends_the_run_and_is_found(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    staged.says("gemma", "MAXTEXT CONFIG ERROR: 'stepz' not in 'emb_dim'", index=1, host=2)
    staged.ends("gemma", code=1, index=1, host=2)
    staged.until("gemma", ("failed", "trainer-failed"))
    evidence = staged.evidence("gemma")
    assert [(log.slice_index, log.host) for log in evidence.logs or ()] == [(1, 2)]
    cause = explain_state(evidence).cause
    assert "stepz" in cause.message
    staged.wait(lambda: "FailJobSetFailurePolicyAction" in events(staged), "JobSet's event")


def events(staged: Staged) -> set[str]:
    """Their reasons. Who writes a condition sends the event about it on another way."""
    return {event.reason for event in staged.evidence("gemma").events or ()}


def test_a_process_killed_for_memory_is_oom_killed(staged: Staged) -> None:
    staged.submit("gemma", restarts=0)
    staged.runs("gemma")
    staged.ends("gemma", code=137, oom=True, host=1)
    staged.until("gemma", ("failed", "oom-killed"))


def test_a_restarted_run_is_starting_and_then_training(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    staged.ends("gemma", code=42, host=1)
    staged.runs("gemma", restarts=1)
    observation = staged.until("gemma", ("starting", "restarted"))
    assert observation.pods is not None
    assert {pod.attempt for pod in observation.pods if not pod.deleting} == {1}
    staged.says("gemma", STEP.format(n=5))
    assert staged.until("gemma", ("training", "")).progress is not None


def test_the_cause_of_a_restart_is_shown_while_any_source_has_it(staged: Staged) -> None:
    staged.submit("gemma", held=True)
    staged.runs("gemma")
    staged.says("gemma", STEP.format(n=7))
    staged.until("gemma", ("training", ""))

    staged.ends("gemma", code=137, oom=True, host=1)
    staged.explained("gemma", "oom-host")

    def restarted() -> bool:
        staged.releases("gemma")
        return {pod.attempt for pod in staged.seen("gemma")[0].pods or ()} == {1}

    staged.wait(restarted, "the pods of before to go")
    staged.runs("gemma", restarts=1)
    message = staged.explained("gemma", "restarted").cause.message
    assert message.startswith("It was restarted 1 of 3 times, the last time at 2")
    assert "its Job gemma-slice-job-0 failed" in message
    node = next(
        pod.spec.node_name for pod in staged.seen("gemma")[0].pods or () if (pod.slice_index, pod.host) == (0, 1)
    )
    staged.kills(node or "")
    staged.explained("gemma", "restarted-memory")
    staged.says("gemma", STEP.format(n=8))
    staged.until("gemma", ("training", ""))
    explained = staged.explained("gemma", "nothing-wrong")
    assert [explained.cause.id, *(other.id for other in explained.others)] == ["nothing-wrong", "restarted-memory"]


def test_the_reason_of_a_restarted_run_is_why_its_pods_do_not_start(staged: Staged) -> None:
    staged.submit("gemma")
    staged.runs("gemma")
    staged.cordon("4x4")
    try:
        staged.ends("gemma", code=42, host=1)
        staged.until("gemma", ("starting", "not-scheduled"))
        (observation,) = observe_cluster(staged.cluster, namespace=staged.namespace, name="real", now=clock.now())
        assert classify(observation).reason == "not-scheduled"  # by what `status` reads, too
    finally:
        staged.cordon("4x4", unschedulable=False)
    staged.runs("gemma", restarts=1)
    staged.until("gemma", ("starting", "restarted"))
    staged.real.annotate_pods(staged.namespace, place("gemma", "slice-job", 1, 0), {"fake/waiting": "CrashLoopBackOff"})
    staged.until("gemma", ("starting", "crash-loop"))


@pytest.mark.parametrize("how", ["service-account-missing", "pod-security"])
def test_refused_pods_are_the_cause_and_not_the_jobset_controller(staged: Staged, how: str) -> None:
    if how == "pod-security":
        label = "pod-security.kubernetes.io/enforce=baseline"
        staged.real.kubectl("label", "namespace", staged.namespace, label)
    staged.submit("gemma", account="nobody" if how == "service-account-missing" else None)
    explanation = staged.explained("gemma", how)
    assert explanation.cause.basis == "direct"
    assert "jobset-controller" not in [other.id for other in explanation.others if other.basis == "direct"]


@pytest.mark.parametrize("how", ["cordoned-nodes", "tainted-nodes"])
def test_cordoned_and_tainted_nodes_are_not_a_missing_pool(staged: Staged, how: str) -> None:
    taint, nodes = "maintenance=true:NoSchedule", f"{TOPOLOGY}=4x4"
    if how == "cordoned-nodes":
        staged.cordon("4x4")
    else:
        staged.real.kubectl("taint", "nodes", "-l", nodes, taint)
    try:
        staged.submit("gemma")
        staged.until("gemma", ("starting", "not-scheduled"))
        explanation = staged.explained("gemma", how)
        assert explanation.cause.basis == "direct"
        assert "no-such-nodes" not in [other.id for other in explanation.others]
    finally:
        if how == "cordoned-nodes":
            staged.cordon("4x4", unschedulable=False)
        else:
            staged.real.kubectl("taint", "nodes", "-l", nodes, f"{taint}-")


def test_the_last_known_state_outlives_the_jobset_and_its_pods(staged: Staged, tmp_path: Path) -> None:
    """One run is cancelled, another killed for memory; both are read as `status` reads them."""
    store = RecordStore(state=tmp_path, objects_at=lambda _: LocalObjects())

    def look() -> dict[str, tuple[Observation, Status]]:
        observations = read_staged(staged, store).observations
        judged = {observed.run_name: (observed, classify(observed)) for observed in observations}
        remember(tmp_path, judged.values(), now=clock.now())
        return judged

    uid = staged.submit("gone", restarts=0)["metadata"]["uid"]
    where = Where(context="real")
    entry = IndexEntry(
        run_name="gone", target="xpk", output=str(tmp_path), jobset="gone", namespace=staged.namespace, cluster=where,
        uid=uid, updated_at=clock.now(),
    )  # fmt: skip
    keep_entry(tmp_path / "runs", entry)
    staged.runs("gone")
    staged.says("gone", STEP.format(n=7))
    staged.wait(lambda: look()["gone"][1].state == "training", "its step")
    assert staged.cluster.delete_jobset(name="gone", namespace=staged.namespace, uid=uid) == "deleted"
    staged.wait(lambda: look()["gone"][0].jobset is None, "it to go")
    observation, status = look()["gone"]
    row = row_of(observation, status, now=clock.now())
    assert (row.state, row.reason, row.tpu, row.num_slices, row.step, row.loss) == (
        "unknown", "jobset-gone", "v6e-16", 2, 7, 2.5,
    )  # fmt: skip
    staged.submit("killed", restarts=0)
    staged.runs("killed")
    staged.ends("killed", code=137, oom=True, host=0)
    staged.wait(lambda: look()["killed"][1].reason == "oom-killed", "status to see it")
    staged.real.kubectl("delete", "pods", "-n", staged.namespace, "-l", selector("killed"), "--ignore-not-found")
    staged.wait(lambda: not staged.real.pods(staged.namespace, selector("killed")), "its pods to go")
    assert look()["killed"][1].reason == "oom-killed"


def test_an_image_that_cannot_be_pulled_is_the_reason(staged: Staged) -> None:
    staged.submit("gemma", notes={"fake/pull": "ImagePullBackOff", "fake/msg": "Back-off pulling image"})
    staged.real.wait_pods(staged.namespace, selector("gemma"), count=2 * HOSTS, phase="Pending")
    staged.until("gemma", ("starting", "image-pull"))
    observations = observe_cluster(staged.cluster, namespace=staged.namespace, name="real", now=NOW)
    (observation,) = observations
    assert {(pod.slice_index, pod.host) for pod in observation.pods or ()} == {
        (0, 0),
        (1, 0),
    }  # `status` asks for no others


def test_cancelling_a_run_that_lost_a_pod_loses_the_steps_since_its_checkpoint(
    staged: Staged, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A host of each slice is gone; the log of host 0 and the checkpoint of step 400 are not."""
    output = tmp_path_factory.mktemp("output")
    checkpoint = output / "gemma" / "checkpoints" / "400" / "_CHECKPOINT_METADATA"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    staged.submit("gemma", held=True, output=str(output))
    staged.runs("gemma")
    staged.says("gemma", STEP.format(n=430))
    for index in (0, 1):
        staged.real.kubectl(
            "delete", "pod", "-n", staged.namespace, "--wait=false", "-l", place("gemma", "slice-job", index, 2)
        )
    store = RecordStore(state=output / "state", objects_at=lambda _: LocalObjects())
    where = Where(context=staged.real.context)
    source = RunSource(name="real", where=where, namespace=staged.namespace)
    runs = Runs(sources=(source,), store=store, names=("gemma",), local=False, connect=lambda _: staged.cluster)

    def lost_a_pod() -> FoldedRun | None:
        (hit,) = runs.look().rows
        return hit if hit.row.reason == "pods-replaced" else None

    hit = staged.wait(lost_a_pod, "the Jobs to count their pods")
    assert hit is not None
    assert loss_of(hit.seen, hit.row, runs.saved(hit.seen)).steps == 30
    staged.releases("gemma")


def test_missing_nodes_are_not_scheduled(staged: Staged) -> None:
    staged.submit("gemma", node=SPOT)
    staged.until("gemma", ("starting", "not-scheduled"))
    staged.wait(lambda: "FailedScheduling" in events(staged), "the scheduler's event")
    (observation,) = observe_cluster(staged.cluster, namespace=staged.namespace, name="real", now=NOW)
    assert observation.pods is not None
    assert {c.reason for pod in observation.pods for c in pod.status.conditions} >= {"Unschedulable"}


def test_a_full_queue_lists_its_runs(queued: Staged) -> None:
    queued.submit("holder", queue="own")
    queued.until("holder", ("starting", "trainer-starting"), ("starting", "pods-not-ready"), ("starting", "no-jobs"))
    queued.submit("first", queue="own")
    created = time.time()
    queued.until("first", ("queued", "waiting-for-quota"))
    until_next_second(created)  # Kueue orders by the second of creation, in no order within one
    queued.submit("second", queue="own")
    queued.until("second", ("queued", "waiting-for-quota"))
    evidence = queued.wait(lambda: behind_first(queued), "Kueue to tell both positions and what the holder uses")
    assert [(holder.name, holder.holds) for holder in evidence.holders or () if holder.name == "holder"] == [
        ("holder", f"{CHIPS} google.com/tpu")
    ]
    assert "first" in explain_state(evidence).cause.message or "holder" in explain_state(evidence).cause.message


def behind_first(queued: Staged) -> Evidence | None:
    """Once it is so. A run that Kueue tries at this moment is in no list, and it counts what is used a little later."""
    evidence = queued.evidence("second")
    position = evidence.seen.position
    tpu = next((quota for quota in evidence.quotas or () if quota.resource == "google.com/tpu"), None)
    ahead = [one.name for one in evidence.ahead or ()]
    used = tpu and (tpu.total, tpu.used)
    return evidence if (position, ahead, used) == (1, ["first"], (str(CHIPS), str(CHIPS))) else None


def test_a_request_over_the_capacity_of_the_queue_is_explained_as_never_fitting(staged: Staged) -> None:
    staged.queue(CHIPS // 2)
    try:
        staged.submit("gemma", queue="own")
        staged.until("gemma", ("queued", "waiting-for-quota"))
        staged.wait(lambda: "maximum capacity" in words(staged, "gemma"), "Kueue to say why")
        assert "never" in explain_state(staged.evidence("gemma")).cause.message.lower()
    finally:
        staged.real.delete_queue(staged.namespace)


def test_a_missing_queue_or_priority_class_is_named(staged: Staged) -> None:
    staged.submit("gemma", queue="nosuch")
    staged.until("gemma", ("queued", "inadmissible"))
    assert staged.evidence("gemma").missing == ("LocalQueue/nosuch",)
    staged.submit("other", priority="urgent")
    staged.until("other", ("queued", "no-workload"))
    assert staged.evidence("other").missing == ("PriorityClass/urgent",)


def test_a_preempted_run_names_the_run_that_preempted_it(queued: Staged) -> None:
    queued.submit("gemma", queue="own", priority="low")
    queued.runs("gemma")
    queued.submit("rival", queue="own", priority="high")
    queued.until("gemma", ("evicted", "preempted"))
    queued.runs("rival")
    queued.wait(lambda: queued.evidence("gemma").preemptor == "rival", "the preemptor to hold quota")
    queued.wait(lambda: (w := queued.seen("gemma")[0].workload) and w.evictions == 1, "Kueue to count it")


def test_a_deactivated_run_is_evicted(queued: Staged) -> None:
    queued.submit("gemma", queue="own")
    queued.runs("gemma")
    queued.patch_workload("gemma", {"spec": {"active": False}})
    observation = queued.until("gemma", ("evicted", "deactivated"))
    assert observation.workload is not None
    assert not observation.workload.spec.active


def test_a_jobset_created_again_from_its_own_yaml_has_failed(queued: Staged) -> None:
    """Its pod templates have the node selectors that Kueue added, so Kueue cannot start it."""
    queued.submit("gemma", queue="own")
    queued.runs("gemma")
    path = f"{JOBSETS.format(queued.namespace)}/gemma"
    jobset_object = queued.real.api("GET", path)
    queued.real.api("DELETE", path)
    queued.wait(lambda: not queued.seen("gemma"), "the JobSet to be gone")
    metadata = {key: jobset_object["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    body = {key: jobset_object[key] for key in ("apiVersion", "kind", "spec")}
    queued.real.api("POST", JOBSETS.format(queued.namespace), {**body, "metadata": metadata})
    uid = queued.until("gemma", ("failed", "kueue-finished")).uid
    (owned,) = queued.cluster.reads.workloads(namespace=queued.namespace, labels=f"{JOB_UID_LABEL}={uid}").objects
    assert owned.owner.uid == uid
    assert "FailedToStart" in queued.explained("gemma", "kueue-finished").cause.message


def test_a_stopped_queue_evicts_its_run(queued: Staged) -> None:
    queued.submit("gemma", queue="own")
    queued.runs("gemma")
    queued.patch_queue({"spec": {"stopPolicy": "HoldAndDrain"}})
    queued.until("gemma", ("evicted", "queue-stopped"))
    queued.wait(lambda: (c := queued.evidence("gemma").cluster_queue) and c.status == "False", "it to be inactive")
    stopped = queued.evidence("gemma").cluster_queue
    assert stopped is not None
    assert stopped.type == "Active"


def test_a_jobset_without_valid_jobs_has_failed_with_broken_spec(staged: Staged) -> None:
    """The JobSet is admitted and has no condition, event or status: only a dry run of its Jobs shows the error."""
    staged.submit("gemma", image="")
    staged.until("gemma", ("failed", "broken-spec"))
    evidence = staged.evidence("gemma")
    assert evidence.dry_run is not None
    assert "image: Required value" in evidence.dry_run[0].message


def test_a_pathways_run_passes_its_states_from_start_to_success(staged: Staged) -> None:
    staged.submit("gemma", mode="pathways")
    staged.runs("gemma", 2 * HOSTS + 1)
    staged.until("gemma", ("starting", "trainer-starting"))
    staged.says("gemma", STEP.format(n=STEPS), job="pathways-head")
    staged.until("gemma", ("training", ""))
    staged.ends("gemma", job="pathways-head", host=0)
    observation = staged.until("gemma", ("succeeded", ""))
    assert observation.mode == "pathways"


def test_a_failed_pathways_head_fails_the_run(staged: Staged) -> None:
    staged.submit("gemma", mode="pathways")
    staged.runs("gemma", 2 * HOSTS + 1)
    staged.says("gemma", "ValueError: no", job="pathways-head")
    staged.ends("gemma", code=1, job="pathways-head", host=0)
    staged.until("gemma", ("failed", "trainer-failed"))
    assert [log.replicated_job for log in staged.evidence("gemma").logs or ()] == ["pathways-head"]


def test_status_reads_all_runs_in_a_few_lists(staged: Staged, tmp_path_factory: pytest.TempPathFactory) -> None:
    staged.submit("going")
    staged.runs("going")
    staged.says("going", STEP.format(n=4))
    staged.until("going", ("training", ""))
    staged.submit("waits", queue="nosuch")
    staged.until("waits", ("queued", "inadmissible"))
    store = RecordStore(state=tmp_path_factory.mktemp("state"), objects_at=lambda _: pytest.fail("nothing is written"))
    runs_read = read_staged(staged, store, limits=ReadLimits(progress_s=20))
    assert (runs_read.problems, runs_read.whole) == ((), True)
    rows = {observation.run_name: observation for observation in runs_read.observations}
    assert set(rows) == {"going", "waits"}
    assert rows["going"].progress is not None
    assert rows["going"].progress.step == 4
