"""Every stage of infra's tables as one observation, and the status it must get. Shared by the tests of `classify`."""

from __future__ import annotations

from tests.replacing import replace
from tests.runs.seen import (
    ADMITTED,
    CREATED,
    ENDED_AT,
    NOW,
    PENDING,
    QUOTA,
    RUN,
    STEPS,
    SUSPENDED,
    UNSCHEDULABLE,
    WAITING,
    condition,
    container,
    jobset,
    local,
    observation,
    pod,
    pods,
    progress,
    slices,
    terminated,
    training,
    unread,
    waiting,
    workload,
)
from tests.runs.server_cases import SERVERS
from xsft.cluster.observation import Before, Observation, Recorded, ReplicatedJob, Status, Unread

Case = tuple[str, Observation, tuple[str, str]]

HELD = jobset(suspended=True, conditions=(SUSPENDED,), jobs=slices(suspended=2))
STARTING = jobset(jobs=slices(active=2))
LATELY = "2026-11-21T11:55:00Z"
NO_RESERVATION = condition("Admitted", "False", "NoReservation")
PREEMPTED = condition("Evicted", "True", "Preempted", "Preempted to accommodate a workload (UID: 1, JobUID: 2)")


def waits(message: str, reason: str = "Pending") -> Observation:
    reserved = condition("QuotaReserved", "False", reason, message)
    return observation(jobset=HELD, workload=workload(reserved), pods=(), progress=None)


QUEUED: tuple[Case, ...] = (
    ("queued, no quota", waits(PENDING), ("queued", "waiting-for-quota")),
    (
        "request above quota",
        waits("insufficient quota for google.com/tpu in flavor 2xv6e-256, … (1024) > maximum capacity (512)"),
        ("queued", "waiting-for-quota"),
    ),
    (
        "label no flavor has",
        waits("flavor 2xv6e-256 doesn't match node affinity"),
        ("queued", "waiting-for-quota"),
    ),
    (
        "waits for preemption",
        waits(f"{PENDING}. Pending the preemption of 1 workload(s)"),
        ("queued", "waiting-for-quota"),
    ),
    ("LocalQueue missing", waits("LocalQueue nosuch doesn't exist", "Inadmissible"), ("queued", "inadmissible")),
    ("no Workload", observation(jobset=HELD, workload=None, pods=()), ("queued", "no-workload")),
    (
        "suspended by hand: no queue, no Workload",
        observation(jobset=replace(HELD, queue=None), workload=None, pods=()),
        ("queued", "suspended"),
    ),
    (
        "suspended and taken out of its queue by hand after it was admitted",
        observation(jobset=replace(HELD, queue=None), workload=workload(QUOTA, ADMITTED), pods=()),
        ("queued", "suspended"),
    ),
    (
        "suspended, without a queue, and Kueue was not asked",
        observation(jobset=replace(HELD, queue=None), workload=None, unread=unread("workloads")),
        ("queued", "workload-not-read"),
    ),
    (
        "Workload not read",
        observation(jobset=HELD, workload=None, unread=unread("workloads")),
        ("queued", "workload-not-read"),
    ),
    (
        "a Workload without conditions",
        observation(jobset=HELD, workload=workload(condition("Other"))),
        ("queued", "waiting-for-quota"),
    ),
    (
        "admission checks",
        observation(jobset=HELD, workload=workload(QUOTA, condition("Admitted", "False", "Pending"))),
        ("queued", "admission-checks"),
    ),
    (
        "deactivated before it was admitted",
        observation(jobset=HELD, workload=workload(WAITING, active=False)),
        ("queued", "deactivated"),
    ),
    (
        "admitted without QuotaReserved",
        observation(workload=workload(WAITING, ADMITTED)),
        ("queued", "waiting-for-quota"),
    ),
    (
        "inadmissible by QuotaReserved only",
        observation(jobset=HELD, workload=workload(WAITING, condition("Admitted", "False", "Inadmissible"))),
        ("queued", "waiting-for-quota"),
    ),
)

EVICTED: tuple[Case, ...] = (
    (
        "being preempted: quota still reserved, pods still running",
        observation(
            jobset=jobset(suspended=True, conditions=(SUSPENDED,)),
            workload=workload(QUOTA, ADMITTED, PREEMPTED, condition("Preempted", "True", "InClusterQueue")),
            pods=tuple(pod(host=h, deleting=True) for h in range(4)),
        ),
        ("evicted", "preempted"),
    ),
    (
        "preempted, back in queue",
        observation(
            jobset=HELD,
            workload=workload(
                WAITING, PREEMPTED, NO_RESERVATION, condition("Requeued", "True", "Preempted"), evictions=1
            ),
        ),
        ("evicted", "preempted"),
    ),
    (
        "deactivated",
        observation(
            jobset=HELD,
            workload=workload(
                WAITING,
                condition("Evicted", "True", "Deactivated"),
                condition("Requeued", "False", "Deactivated"),
                active=False,
            ),
        ),
        ("evicted", "deactivated"),
    ),
    (
        "ClusterQueue HoldAndDrain",
        observation(jobset=HELD, workload=workload(WAITING, condition("Evicted", "True", "ClusterQueueStopped"))),
        ("evicted", "queue-stopped"),
    ),
    *(
        (
            f"evicted: {reason}",
            observation(jobset=HELD, workload=workload(WAITING, condition("Evicted", "True", reason))),
            ("evicted", slug),
        )
        for reason, slug in (
            ("LocalQueueStopped", "queue-stopped"),
            ("PodsReadyTimeout", "pods-ready-timeout"),
            ("AdmissionCheck", "admission-check"),
            ("NodeFailures", "node-failures"),
            ("DeactivatedDueToMaximumExecutionTimeExceeded", "time-limit"),
            ("DeactivatedDueToRequeuingLimitExceeded", "deactivated"),
            ("OfSomeLaterKueue", "evicted"),
        )
    ),
    (
        "admitted again: the old conditions stay, turned False",
        observation(
            workload=workload(
                QUOTA,
                ADMITTED,
                condition("Evicted", "False", "QuotaReserved", "Previously: Preempted to accommodate"),
                condition("Preempted", "False", "QuotaReserved"),
                condition("Requeued", "True", "Preempted"),
            )
        ),
        ("training", ""),
    ),
)

STATUSLESS = jobset(conditions=(), jobs=slices(), has_status=False)

STARTED: tuple[Case, ...] = (
    (
        "admitted, the JobSet not resumed yet",
        observation(jobset=HELD, pods=()),
        ("starting", "admitted"),
    ),
    (
        "admitted, Jobs without pods",
        observation(jobset=jobset(jobs=slices()), pods=(), progress=None),
        ("starting", "no-jobs"),
    ),
    (
        "admitted, Jobs with pods that come",
        observation(jobset=STARTING, pods=(pod(phase="Pending", containers=()),), progress=None),
        ("starting", "pods-pending"),
    ),
    ("no counts at all", observation(jobset=jobset(jobs=()), pods=None, progress=None), ("starting", "no-jobs")),
    ("pods not read", observation(jobset=STARTING, pods=None, progress=None), ("starting", "pods-not-ready")),
    (
        "unschedulable: one pod per Job",
        observation(
            jobset=STARTING,
            pods=tuple(pod(s, 0, "Pending", conditions=(UNSCHEDULABLE,), containers=()) for s in range(2)),
            progress=None,
        ),
        ("starting", "not-scheduled"),
    ),
    *(
        (
            f"waiting: {reason}",
            observation(
                jobset=STARTING,
                pods=pods((pod(1, 3, "Pending", containers=(waiting(reason),)),)),
                progress=None,
            ),
            ("starting", slug),
        )
        for reason, slug in (
            ("ImagePullBackOff", "image-pull"),
            ("ErrImagePull", "image-pull"),
            ("InvalidImageName", "image-pull"),
            ("CreateContainerConfigError", "container-config"),
            ("RunContainerError", "container-start"),
            ("ContainerCreating", "containers-creating"),
            ("CrashLoopBackOff", "crash-loop"),
        )
    ),
    (
        "no node before no image",
        observation(
            jobset=STARTING,
            pods=(
                pod(0, 0, "Pending", containers=(waiting("ErrImagePull"),)),
                pod(1, 0, "Pending", conditions=(UNSCHEDULABLE,), containers=()),
            ),
            progress=None,
        ),
        ("starting", "not-scheduled"),
    ),
    (
        "a pod is replaced after its node was lost: no failure",
        observation(
            jobset=jobset(jobs=slices(ready=1, active=2)),
            pods=pods((pod(1, 2, deleting=True, phase="Failed", containers=(terminated(137),)),)),
        ),
        ("starting", "pods-replaced"),
    ),
    (
        "admitted for 58 s without a status: not yet broken",
        observation(jobset=STATUSLESS, pods=(), progress=None, observed_at="2026-11-21T10:01:00Z"),
        ("starting", "no-jobs"),
    ),
    (
        "broken spec: admitted for 61 s without a status",
        observation(jobset=STATUSLESS, pods=(), progress=None, observed_at="2026-11-21T10:01:03Z"),
        ("failed", "broken-spec"),
    ),
    (
        "broken spec without Kueue",
        observation(jobset=STATUSLESS, workload=None, pods=(), progress=None),
        ("failed", "broken-spec"),
    ),
    (
        "no status, Kueue not asked: not broken",
        observation(jobset=STATUSLESS, workload=None, pods=(), progress=None, unread=unread("workloads")),
        ("starting", "no-jobs"),
    ),
    (
        "status without Jobs: not broken",
        observation(jobset=jobset(jobs=slices()), pods=(), progress=None),
        ("starting", "no-jobs"),
    ),
    (
        "admission without a time",
        observation(
            jobset=STATUSLESS, workload=workload(QUOTA, condition("Admitted", at="soon")), pods=(), progress=None
        ),
        ("starting", "no-jobs"),
    ),
    (
        "admitted for 60 s without a status: not yet broken",
        observation(jobset=STATUSLESS, pods=(), progress=None, observed_at="2026-11-21T10:01:02Z"),
        ("starting", "no-jobs"),
    ),
    (
        "counts are a status",
        observation(jobset=jobset(has_status=False, jobs=slices(active=1)), pods=None, progress=None),
        ("starting", "pods-not-ready"),
    ),
    (
        "loading, a pod not ready",
        observation(jobset=STARTING, pods=None, progress=progress(phase="starting")),
        ("starting", "pods-not-ready"),
    ),
    (
        "pod being deleted is ignored",
        observation(
            jobset=STARTING, pods=(pod(phase="Pending", deleting=True, containers=(waiting("ErrImagePull"),)),)
        ),
        ("starting", "pods-replaced"),
    ),
    (
        "ended pod is ignored for nodes and images",
        observation(
            jobset=STARTING,
            pods=(
                pod(phase="Failed", conditions=(UNSCHEDULABLE,), containers=()),
                pod(1, phase="Failed", containers=(waiting("ErrImagePull"),)),
                pod(1, 1, phase="Succeeded", containers=(waiting("ErrImagePull"),)),
            ),
            progress=None,
        ),
        ("starting", "pods-not-ready"),
    ),
    *(
        (
            f"a pod that waits for its turn: {said.type} {said.status} {said.reason}",
            observation(
                jobset=STARTING, pods=(pod(phase="Pending", conditions=(said,), containers=()),), progress=None
            ),
            ("starting", "pods-pending"),
        )
        for said in (
            condition("PodScheduled", "False", "SchedulingGated"),
            condition("PodScheduled", "True", "Unschedulable"),
            condition("Ready", "False", "Unschedulable"),
        )
    ),
)

HEAD_UP = ReplicatedJob(name="pathways-head", replicas=1, ready=1, active=1)
IN_ORDER = condition("StartupPolicyInProgress", "True", "InOrderStartupPolicyInProgress")


def workers(**counts: int) -> ReplicatedJob:
    return ReplicatedJob(name="worker", replicas=2, **counts)


PATHWAYS: tuple[Case, ...] = (
    (
        "Pathways: workers wait for the head",
        observation(
            mode="pathways",
            jobset=jobset(mode="pathways", conditions=(SUSPENDED, IN_ORDER), jobs=(workers(suspended=2), HEAD_UP)),
            pods=(),
            progress=None,
        ),
        ("starting", "workers-after-head"),
    ),
    (
        "Pathways: running",
        observation(
            mode="pathways",
            jobset=jobset(
                mode="pathways",
                conditions=(condition("StartupPolicyInProgress", "False"), condition("StartupPolicyCompleted")),
                jobs=(workers(ready=2, active=2), HEAD_UP),
            ),
        ),
        ("training", ""),
    ),
    (
        "Pathways: the head ended with 0, the workers still run",
        observation(
            mode="pathways",
            jobset=jobset(
                terminal="Completed",
                conditions=(condition("Completed", reason="AllJobsCompleted", at=ENDED_AT),),
                jobs=(workers(active=2), ReplicatedJob(name="pathways-head", replicas=1, succeeded=1)),
            ),
            progress=training(STEPS),
        ),
        ("succeeded", ""),
    ),
    (
        "Pathways: head failed, startup policy in progress again",
        observation(
            mode="pathways",
            jobset=jobset(
                terminal="Failed",
                conditions=(condition("Failed", reason="ReachedMaxRestarts", at=ENDED_AT), IN_ORDER),
                jobs=(workers(active=2), ReplicatedJob(name="pathways-head", replicas=1, failed=1)),
            ),
        ),
        ("failed", "trainer-failed"),
    ),
    (
        "Pathways: a 23-character name, no Job ever",
        observation(mode="pathways", jobset=STATUSLESS, pods=(), progress=None),
        ("failed", "broken-spec"),
    ),
    (
        "Pathways: a worker's container restarts",
        observation(
            mode="pathways",
            jobset=jobset(jobs=(workers(active=2), HEAD_UP)),
            pods=(pod(phase="Running", containers=(waiting("CrashLoopBackOff"),)),),
            progress=None,
        ),
        ("starting", "crash-loop"),
    ),
)

RUNNING: tuple[Case, ...] = (
    ("running, no conditions at all", observation(jobset=jobset(conditions=())), ("training", "")),
    (
        "no queue label: no Workload, at once",
        observation(jobset=jobset(conditions=()), workload=None),
        ("training", ""),
    ),
    (
        "one slice done",
        observation(
            jobset=jobset(jobs=slices(ready=1, active=1, succeeded=1)), progress=training(STEPS, phase="ended")
        ),
        ("saving", "ending"),
    ),
    ("nothing said yet", observation(pods=None, progress=progress(said_at=None)), ("starting", "trainer-starting")),
    ("loading", observation(progress=progress(phase="starting")), ("starting", "trainer-starting")),
    ("compiling", observation(progress=progress(phase="compiling")), ("compiling", "")),
    ("the loop runs, no step yet", observation(progress=progress(phase="training")), ("compiling", "")),
    ("a step, no phase", observation(progress=training(phase=None)), ("training", "")),
    ("saving", observation(progress=training(phase="saving")), ("saving", "")),
    ("the data ran out", observation(progress=training(phase="ended", data_ended=True)), ("saving", "data-ended")),
    ("NaN, about to end", observation(progress=training(aborted="NaN loss")), ("training", "aborting")),
    (
        "NaN at 3 steps, about to end",
        observation(progress=training(aborted="NaN loss", not_finite_steps=3)),
        ("training", "aborting"),
    ),
    ("no targets in 3 steps", observation(progress=training(3, no_target_steps=3)), ("training", "no-target-tokens")),
    ("no targets in 2 steps", observation(progress=training(3, no_target_steps=2)), ("training", "")),
    ("its first two steps", observation(progress=training(2, no_target_steps=2)), ("training", "")),
    (
        "no targets, evaluating",
        observation(progress=training(phase="evaluating", no_target_steps=3)),
        ("training", "no-target-tokens"),
    ),
    (
        "no targets, saving",
        observation(progress=training(phase="saving", no_target_steps=400)),
        ("saving", "no-target-tokens"),
    ),
    (
        "no targets by the metrics",
        observation(progress=training(source="metrics", phase=None, no_target_steps=3)),
        ("training", "no-target-tokens"),
    ),
    (
        "no targets in both steps, data ended",
        observation(progress=training(2, phase="ended", data_ended=True, no_target_steps=2)),
        ("saving", "no-target-tokens"),
    ),
    (
        "no targets in both steps since the restart",
        observation(progress=training(STEPS, phase="ended", resumed_from=STEPS - 2, no_target_steps=2)),
        ("saving", "no-target-tokens"),
    ),
    (
        "NaN, not aborted",
        observation(progress=training(not_finite_steps=3, loss=float("nan"))),
        ("training", "loss-not-finite"),
    ),
    (
        "NaN, and saving",
        observation(progress=training(phase="saving", not_finite_steps=3)),
        ("saving", "loss-not-finite"),
    ),
    ("a loss of 0 with targets", observation(progress=training(zero_loss_steps=40, loss=0.0)), ("training", "")),
    ("progress not read", observation(progress=None), ("training", "progress-not-read")),
    (
        "no metrics yet, log not read",
        observation(progress=progress(source="metrics", said_at=None)),
        ("training", "progress-not-read"),
    ),
    ("steps from the metrics", observation(progress=training(source="metrics", phase=None)), ("training", "")),
    (
        "plain xpk, unknown program",
        observation(jobset=jobset(ours=False, steps=None), steps=None, progress=progress(said_at=CREATED)),
        ("training", "trainer-silent"),
    ),
    (
        "a conversion, up for hours without a line",
        observation(jobset=jobset(work="convert", steps=None), steps=None, progress=progress(said_at=CREATED)),
        ("training", "cpu-job"),
    ),
    (
        "a conversion that completed",
        observation(jobset=jobset(work="convert", steps=None, terminal="Completed"), steps=None, progress=None),
        ("succeeded", ""),
    ),
    (
        "restarted, pods coming",
        observation(jobset=jobset(conditions=(), jobs=slices(active=2), restarts=1, created_at=LATELY), pods=()),
        ("starting", "restarted"),
    ),
    (
        "restarted since it was seen two minutes ago",
        observation(
            jobset=jobset(jobs=slices(active=2), restarts=1),
            pods=(),
            before=Before(at="2026-11-21T11:58:00Z", state="training", step=400),
        ),
        ("starting", "restarted"),
    ),
    (
        "restarted just now, no Job made yet",
        observation(jobset=jobset(jobs=slices(), restarts=1, created_at=LATELY), pods=(), progress=None),
        ("starting", "restarted"),
    ),
    (
        "restarted at an unknown time",
        observation(jobset=jobset(jobs=slices(active=2), restarts=1), pods=(), progress=None),
        ("starting", "pods-not-ready"),
    ),
    (
        "restarted, and still no Job",
        observation(jobset=jobset(jobs=slices(), restarts=1), pods=(), progress=None),
        ("starting", "no-jobs"),
    ),
    (
        "restarted long after it was seen last",
        observation(
            jobset=jobset(jobs=slices(active=2), restarts=1),
            pods=(),
            progress=None,
            before=Before(at="2026-11-21T11:40:00Z", state="training", step=400),
        ),
        ("starting", "pods-not-ready"),
    ),
    (
        "restarted, its pods made 12 minutes ago, and one not up",
        observation(
            jobset=jobset(jobs=slices(active=2), restarts=1),
            pods=tuple(pod(0, h, attempt=1, created_at="2026-11-21T11:48:00Z") for h in range(4)),
            progress=None,
        ),
        ("starting", "pods-not-ready"),
    ),
    (
        "restarted, its pods made 8 minutes ago",
        observation(
            jobset=jobset(jobs=slices(active=2), restarts=1),
            pods=tuple(pod(0, h, attempt=1, created_at="2026-11-21T11:52:00Z") for h in range(4)),
            progress=None,
        ),
        ("starting", "restarted"),
    ),
    (
        "restarted, Pathways: the workers wait for the head",
        observation(
            jobset=jobset(
                conditions=(condition("StartupPolicyInProgress"),),
                jobs=(workers(suspended=2), HEAD_UP),
                restarts=1,
                created_at=LATELY,
            ),
            pods=(),
        ),
        ("starting", "workers-after-head"),
    ),
    *(
        (
            f"restarted, and a pod of it: {slug}",
            observation(
                jobset=jobset(jobs=slices(active=2), restarts=1, created_at=LATELY),
                pods=(pod(1, 0, "Pending", attempt=1, **how),),
                progress=None,
            ),
            ("starting", slug),
        )
        for slug, how in (
            ("image-pull", {"containers": (waiting("ImagePullBackOff"),)}),
            ("crash-loop", {"containers": (waiting("CrashLoopBackOff"),)}),
            ("container-config", {"containers": (waiting("CreateContainerConfigError"),)}),
            ("not-scheduled", {"conditions": (UNSCHEDULABLE,), "containers": ()}),
        )
    ),
    (
        "restarted long ago, trained since, and a node of it was lost",
        observation(jobset=jobset(jobs=slices(ready=1, active=2), restarts=1), pods=()),
        ("starting", "pods-replaced"),
    ),
    (
        "restarted, steps of earlier metrics",
        observation(jobset=jobset(jobs=slices(active=2), restarts=1), pods=(), progress=training(source="metrics")),
        ("starting", "pods-not-ready"),
    ),
    (
        "restarted, earlier pods remain",
        observation(
            jobset=jobset(jobs=slices(active=2), restarts=1, created_at=LATELY),
            pods=(pod(phase="Pending", containers=(waiting("ErrImagePull"),), attempt=0),),
        ),
        ("starting", "restarted"),
    ),
    (
        "no known line for more than an hour",
        observation(pods=None, progress=progress(said_at=None, began_at="2026-11-21T10:59:00Z")),
        ("stalled", "no-output"),
    ),
    (
        "failed, earlier status had an OOM kill",
        observation(
            jobset=jobset(
                terminal="Failed",
                conditions=(condition("Failed", reason="ReachedMaxRestarts"),),
                restarts=1,
            ),
            pods=None,
            known_end=Status(state="failed", reason="oom-killed", evidence=("jobset", "pods")),
        ),
        ("failed", "oom-killed"),
    ),
    (
        "failed, earlier status without a cause",
        observation(
            jobset=jobset(terminal="Failed", conditions=(condition("Failed", reason="FailedJobs"),)),
            pods=None,
            known_end=Status(state="failed", reason="trainer-failed", evidence=("jobset",)),
            progress=None,
        ),
        ("failed", "trainer-failed"),
    ),
    (
        "restarted, compiling again",
        observation(jobset=jobset(restarts=1), pods=None, progress=progress(phase="compiling")),
        ("compiling", "restarted"),
    ),
    ("restarted, training again", observation(jobset=jobset(restarts=1), pods=None), ("training", "")),
    (
        "restarted, loading again",
        observation(jobset=jobset(restarts=1), pods=None, progress=progress()),
        ("starting", "restarted"),
    ),
    (
        "no checkpoint yet, log not read",
        observation(progress=progress(source="checkpoints", said_at=None)),
        ("training", "progress-not-read"),
    ),
    (
        "phase by the metrics",
        observation(progress=progress(source="metrics", phase="compiling")),
        ("compiling", ""),
    ),
    (
        "loading again, earlier steps known",
        observation(progress=training(phase="starting")),
        ("starting", "trainer-starting"),
    ),
    ("plain xpk, a trainer that we know", observation(jobset=jobset(ours=False)), ("training", "")),
    (
        "plain xpk, compiling",
        observation(jobset=jobset(ours=False), progress=progress(phase="compiling")),
        ("compiling", ""),
    ),
)

STALLED: tuple[Case, ...] = (
    (
        "no step for 301 s of 12 s each",
        observation(progress=training(said_at="2026-11-21T11:54:59Z")),
        ("stalled", "no-step"),
    ),
    ("no step for 299 s", observation(progress=training(said_at="2026-11-21T11:55:01Z")), ("training", "")),
    (
        "ten steps of 60 s take 600 s",
        observation(progress=training(said_at="2026-11-21T11:50:01Z", step_seconds=60.0)),
        ("training", ""),
    ),
    (
        "more than ten steps of 60 s",
        observation(progress=training(said_at="2026-11-21T11:49:59Z", step_seconds=60.0)),
        ("stalled", "no-step"),
    ),
    (
        "one step printed, no median: half an hour",
        observation(progress=training(1, step_seconds=None, said_at="2026-11-21T11:30:01Z")),
        ("training", ""),
    ),
    (
        "one step printed, then nothing",
        observation(progress=training(1, step_seconds=None, said_at="2026-11-21T11:29:59Z")),
        ("stalled", "no-step"),
    ),
    (
        "invalid median",
        observation(progress=training(step_seconds=float("nan"), said_at="2026-11-21T11:31:00Z")),
        ("training", ""),
    ),
    (
        "compiling for 59 minutes",
        observation(progress=progress(phase="compiling", said_at="2026-11-21T11:01:00Z")),
        ("compiling", ""),
    ),
    (
        "compiling for 61 minutes",
        observation(progress=progress(phase="compiling", said_at="2026-11-21T10:59:00Z")),
        ("stalled", "no-first-step"),
    ),
    (
        "no line in 61 minutes",
        observation(
            pods=(pod(containers=(container(started_at="2026-11-21T10:59:00Z"),)),), progress=progress(said_at=None)
        ),
        ("stalled", "no-output"),
    ),
    (
        "no line in 61 minutes, restarted",
        observation(
            pods=(
                pod(containers=(container(started_at="2026-11-21T10:00:00Z"),)),
                pod(1, containers=(container(started_at="2026-11-21T11:59:00Z"),)),
            ),
            progress=progress(said_at=None),
        ),
        ("starting", "trainer-starting"),
    ),
    (
        "evaluating for 59 minutes",
        observation(progress=training(phase="evaluating", said_at="2026-11-21T11:01:00Z")),
        ("training", "evaluating"),
    ),
    (
        "evaluating for 61 minutes",
        observation(progress=training(phase="evaluating", said_at="2026-11-21T10:59:00Z")),
        ("stalled", "eval-hangs"),
    ),
    (
        "evaluating before the first step",
        observation(progress=progress(phase="evaluating")),
        ("compiling", ""),
    ),
    (
        "saving for 29 minutes",
        observation(progress=training(phase="saving", said_at="2026-11-21T11:31:00Z")),
        ("saving", ""),
    ),
    (
        "saving for 31 minutes",
        observation(progress=training(phase="saving", said_at="2026-11-21T11:29:00Z")),
        ("stalled", "save-hangs"),
    ),
    (
        "line in the future: clock skew, no stall",
        observation(progress=training(said_at="2026-11-21T13:00:00Z")),
        ("training", ""),
    ),
    (
        "log read long ago",
        observation(progress=training(said_at="2026-11-21T11:00:00Z", read_at="2026-11-21T11:00:09Z")),
        ("training", ""),
    ),
    (
        "observed long ago",
        observation(
            observed_at="2026-11-21T11:00:09Z", progress=training(said_at="2026-11-21T11:00:00Z", read_at="not a time")
        ),
        ("training", ""),
    ),
    (
        "old metrics are no stall: flushed every log_period",
        observation(progress=training(source="metrics", said_at="2026-11-21T10:30:00Z")),
        ("training", ""),
    ),
    ("no step for 300 s", observation(progress=training(said_at="2026-11-21T11:55:00Z")), ("training", "")),
    (
        "short steps: five minutes",
        observation(progress=training(said_at="2026-11-21T11:54:00Z", step_seconds=0.5)),
        ("stalled", "no-step"),
    ),
    *(
        (
            f"a median of {seconds} s is none",
            observation(progress=training(said_at="2026-11-21T11:50:00Z", step_seconds=seconds)),
            ("training", ""),
        )
        for seconds in (0.0, -1.0, float("inf"))
    ),
    (
        "loading for 59 minutes",
        observation(progress=progress(phase="starting", said_at="2026-11-21T11:01:00Z")),
        ("starting", "trainer-starting"),
    ),
    (
        "no line, init container ended last",
        observation(
            pods=(
                pod(
                    containers=(
                        terminated(0, "Completed", finished_at="2026-11-21T11:59:00Z"),
                        container(started_at="2026-11-21T10:59:00Z"),
                        container(),
                    )
                ),
            ),
            progress=progress(said_at=None),
        ),
        ("stalled", "no-output"),
    ),
)

COMPLETED = jobset(
    terminal="Completed",
    conditions=(RESUMED_COMPLETED := condition("Completed", reason="AllJobsCompleted", at=ENDED_AT),),
    jobs=slices(succeeded=2),
)


VERDICT_FAILED = Status(state="failed", reason="verdict-failed", evidence=("jobset", "record"))
PASSED_OVER = Unread(what="log", why="not read in time", passed_over=True)


def failing(reason: str, **changes: object) -> Observation:
    failed = condition("Failed", reason=reason, message="(first failed job: W-slice-job-0)", at=ENDED_AT)
    restarts = changes.pop("restarts", 0)
    return observation(
        jobset=jobset(terminal="Failed", conditions=(failed,), jobs=slices(failed=1, active=1), restarts=restarts),
        **changes,
    )


ENDS: tuple[Case, ...] = (
    (
        "completed, the last step was printed",
        observation(jobset=COMPLETED, progress=training(STEPS)),
        ("succeeded", ""),
    ),
    (
        "completed, only the condition",
        observation(jobset=jobset(conditions=(RESUMED_COMPLETED,)), progress=training(STEPS)),
        ("succeeded", ""),
    ),
    (
        "completed, the checkpoint proves it",
        observation(jobset=COMPLETED, progress=progress(source="checkpoints", saved_step=STEPS)),
        ("succeeded", ""),
    ),
    (
        "completed at once from its last checkpoint",
        observation(jobset=COMPLETED, progress=progress(phase="ended", resumed_from=STEPS)),
        ("succeeded", ""),
    ),
    (
        "completed without targets",
        observation(jobset=COMPLETED, progress=training(STEPS, no_target_steps=40)),
        ("failed", "no-target-tokens"),
    ),
    (
        "completed, no targets in 2 steps",
        observation(jobset=COMPLETED, progress=training(STEPS, no_target_steps=2)),
        ("succeeded", ""),
    ),
    (
        "completed, no targets in both steps",
        observation(steps=2, jobset=jobset(terminal="Completed", steps=2), progress=training(2, no_target_steps=2)),
        ("failed", "no-target-tokens"),
    ),
    (
        "completed, no targets in one of two steps",
        observation(steps=2, jobset=jobset(terminal="Completed", steps=2), progress=training(2, no_target_steps=1)),
        ("succeeded", ""),
    ),
    (
        "completed with NaN",
        observation(jobset=COMPLETED, progress=training(STEPS, not_finite_steps=3)),
        ("failed", "loss-not-finite"),
    ),
    (
        "completed without targets, not of xsft",
        observation(
            jobset=jobset(terminal="Completed", steps=None), steps=None, progress=training(7, no_target_steps=7)
        ),
        ("failed", "no-target-tokens"),
    ),
    (
        "completed with a loss of 0",
        observation(jobset=COMPLETED, progress=training(STEPS, zero_loss_steps=40)),
        ("succeeded", ""),
    ),
    (
        "failed after its last step was saved, no targets",
        failing("FailedJobs", progress=training(STEPS, saved_step=STEPS, no_target_steps=40)),
        ("failed", "no-target-tokens"),
    ),
    (
        "failed, no targets",
        failing("ReachedMaxRestarts", restarts=3, progress=training(not_finite_steps=4)),
        ("failed", "loss-not-finite"),
    ),
    ("completed, ended short", observation(jobset=COMPLETED, progress=training(400)), ("failed", "ended-short")),
    (
        "completed, one step short",
        observation(jobset=COMPLETED, progress=training(STEPS - 1)),
        ("failed", "ended-short"),
    ),
    (
        "completed, the data ran out",
        observation(jobset=COMPLETED, progress=training(400, data_ended=True)),
        ("failed", "data-ended"),
    ),
    (
        "completed behind a pipe that hid the exit status",
        observation(jobset=COMPLETED, progress=training(400, aborted="NaN loss")),
        ("failed", "aborted"),
    ),
    ("completed, steps not read", observation(jobset=COMPLETED, progress=None), ("unknown", "steps-not-read")),
    (
        "completed, its log holds no step",
        observation(jobset=COMPLETED, progress=progress()),
        ("unknown", "steps-not-read"),
    ),
    (
        "completed, log read before its end",
        observation(jobset=COMPLETED, progress=training(400, read_at="2026-11-21T11:49:00Z")),
        ("unknown", "steps-not-read"),
    ),
    (
        "completed; the metrics never hold the last step",
        observation(jobset=COMPLETED, progress=training(STEPS - 1, source="metrics")),
        ("unknown", "steps-not-read"),
    ),
    (
        "completed, metrics that stop early",
        observation(jobset=COMPLETED, progress=training(STEPS - 2, source="metrics")),
        ("failed", "ended-short"),
    ),
    (
        "completed, record of another time",
        observation(jobset=COMPLETED, progress=training(400, source="record")),
        ("unknown", "steps-not-read"),
    ),
    (
        "completed, number of steps unknown",
        observation(jobset=jobset(terminal="Completed", steps=None), steps=None, progress=None),
        ("succeeded", "steps-not-known"),
    ),
    (
        "completed, steps from the JobSet alone",
        observation(jobset=COMPLETED, steps=None, progress=training(400)),
        ("failed", "ended-short"),
    ),
    (
        "completed, more steps asked for since",
        observation(jobset=COMPLETED, steps=2 * STEPS, progress=training(STEPS)),
        ("failed", "ended-short"),
    ),
    ("exit 1, whatever maxRestarts", failing("FailJobSetFailurePolicyAction"), ("failed", "trainer-failed")),
    ("no restarts left", failing("ReachedMaxRestarts", restarts=3), ("failed", "restarts-used-up")),
    ("no restarts given", failing("ReachedMaxRestarts"), ("failed", "trainer-failed")),
    ("without a failure policy", failing("FailedJobs"), ("failed", "trainer-failed")),
    ("a reason of a later JobSet", failing("SomethingElse"), ("failed", "jobset-failed")),
    (
        "OOM kill",
        failing("ReachedMaxRestarts", pods=pods((pod(0, 2, "Failed", containers=(terminated(137, "OOMKilled"),)),))),
        ("failed", "oom-killed"),
    ),
    ("NaN", failing("FailJobSetFailurePolicyAction", progress=training(aborted="NaN loss")), ("failed", "aborted")),
    (
        "failed after the last step was saved",
        failing("FailJobSetFailurePolicyAction", progress=training(STEPS, saved_step=STEPS)),
        ("succeeded", "after-last-step"),
    ),
    (
        "killed for memory after the last step was saved",
        failing(
            "ReachedMaxRestarts",
            pods=pods((pod(0, 2, "Failed", containers=(terminated(137, "OOMKilled"),)),)),
            progress=training(STEPS, saved_step=STEPS),
        ),
        ("succeeded", "after-last-step"),
    ),
    (
        "failed: only terminalState",
        observation(jobset=jobset(terminal="Failed", conditions=())),
        ("failed", "jobset-failed"),
    ),
    (
        "failed: only the condition, Completed beside it",
        observation(
            jobset=jobset(conditions=(RESUMED_COMPLETED, condition("Failed", reason="FailedJobs", at=ENDED_AT)))
        ),
        ("failed", "trainer-failed"),
    ),
    *(
        (
            f"an evaluation that completed: {name}",
            observation(jobset=replace(COMPLETED, work="evaluate"), progress=None, **changes),
            expected,
        )
        for name, changes, expected in (
            ("passed", {"record": Recorded(outcome="completed")}, ("succeeded", "")),
            ("verdict failed", {"record": Recorded(outcome="failed")}, ("failed", "verdict-failed")),
            ("known", {"known_end": VERDICT_FAILED}, ("failed", "verdict-failed")),
            ("record not asked", {"record": None, "unread": (PASSED_OVER,)}, ("unknown", "record-not-read")),
        )
    ),
    (
        "Failed=False is no failure",
        observation(jobset=jobset(conditions=(condition("Failed", "False"), condition("Completed", "False")))),
        ("training", ""),
    ),
    (
        "the Workload finished first: succeeded",
        observation(
            workload=workload(QUOTA, ADMITTED, condition("Finished", reason="Succeeded", at=ENDED_AT)),
            progress=training(STEPS),
        ),
        ("succeeded", ""),
    ),
    (
        "the Workload finished first: failed",
        observation(workload=workload(QUOTA, ADMITTED, condition("Finished", reason="Failed"))),
        ("failed", "jobset-failed"),
    ),
    (
        "out-of-sync Workload, JobSet continues",
        observation(workload=workload(QUOTA, ADMITTED, condition("Finished", reason="OutOfSync"))),
        ("training", ""),
    ),
    *(
        (
            f"the Workload finished before the JobSet started: {reason}",
            observation(
                jobset=jobset(suspended=True), workload=workload(QUOTA, ADMITTED, condition("Finished", reason=reason))
            ),
            ("failed", "kueue-finished"),
        )
        for reason in ("FailedToStart", "OutOfSync", "OfALaterKueue")
    ),
    (
        "being deleted",
        observation(jobset=jobset(deleting_at=NOW)),
        ("cancelled", "deleting"),
    ),
    (
        "being deleted after its end, as by TTL",
        observation(jobset=jobset(terminal="Completed", deleting_at=NOW), progress=training(STEPS)),
        ("succeeded", ""),
    ),
    (
        "completed, and read in the same second",
        observation(jobset=COMPLETED, progress=training(400, read_at=ENDED_AT)),
        ("failed", "ended-short"),
    ),
    (
        "completed at an unknown time",
        observation(jobset=jobset(terminal="Completed"), progress=training(400)),
        ("failed", "ended-short"),
    ),
    ("failed, nothing read", failing("FailedJobs", pods=None, progress=None), ("failed", "trainer-failed")),
    (
        "failed before the last step was saved",
        failing("FailedJobs", progress=training(STEPS, saved_step=STEPS - 1)),
        ("failed", "trainer-failed"),
    ),
    (
        "failed, steps saved, requested steps unknown",
        observation(
            jobset=jobset(terminal="Failed", steps=None, conditions=()), steps=None, progress=training(7, saved_step=7)
        ),
        ("failed", "jobset-failed"),
    ),
    (
        "exit 1 after a restart: restarts were left",
        failing("FailJobSetFailurePolicyAction", restarts=1),
        ("failed", "trainer-failed"),
    ),
    ("no restarts left of one", failing("ReachedMaxRestarts", restarts=1), ("failed", "restarts-used-up")),
    (
        "exit 1, no OOM kill in the pods",
        failing(
            "FailJobSetFailurePolicyAction",
            pods=(pod(phase="Failed", containers=(terminated(1), waiting("OOMKilled"))),),
        ),
        ("failed", "trainer-failed"),
    ),
)


def absent(outcome: str | None, **changes: object) -> Observation:
    recorded = Recorded(outcome=outcome, jobset=RUN) if outcome else None
    return observation(
        **({"jobset": None, "workload": None, "pods": None, "progress": None, "record": recorded} | changes)
    )


SAVED = progress(source="checkpoints", saved_step=STEPS)

GONE: tuple[Case, ...] = (
    ("gone, was created", absent("created"), ("unknown", "jobset-gone")),
    ("gone, was created; the last step is saved", absent("created", progress=SAVED), ("succeeded", "last-step-saved")),
    (
        "gone, was created; a step before is saved",
        absent("created", progress=progress(source="checkpoints", saved_step=STEPS - 1)),
        ("unknown", "jobset-gone"),
    ),
    (
        "gone, last step saved, no targets seen",
        absent("created", progress=training(STEPS, saved_step=STEPS, no_target_steps=40)),
        ("failed", "no-target-tokens"),
    ),
    (
        "gone, last step saved, no targets by its record",
        absent("failed", progress=SAVED, record=Recorded(outcome="failed", state_reason="no-target-tokens")),
        ("failed", "no-target-tokens"),
    ),
    (
        "gone, cancelled without targets",
        absent("cancelled", progress=training(no_target_steps=40)),
        ("cancelled", ""),
    ),
    (
        "unreachable, no targets by its record",
        absent(
            "failed",
            unread=unread("jobsets"),
            progress=SAVED,
            record=Recorded(outcome="failed", state_reason="loss-not-finite"),
        ),
        ("unknown", "unreachable"),
    ),
    (
        "a JobSet of another shape",
        observation(jobset=None, record=None, progress=None, unread=unread("object")),
        ("unknown", "object-not-read"),
    ),
    ("gone, cancelled", absent("cancelled"), ("cancelled", "")),
    ("gone, cancelled after its last step", absent("cancelled", progress=SAVED), ("cancelled", "")),
    ("gone, not created", absent("not-created"), ("failed", "not-created")),
    ("gone, its submitter was killed", absent("submitting"), ("unknown", "submitting")),
    ("gone, recorded as failed", absent("failed"), ("failed", "trainer-failed")),
    ("gone, outcome unknown", absent("unknown"), ("unknown", "not-found")),
    ("gone, no record", absent(None), ("unknown", "not-found")),
    ("gone, no record; the last step is saved", absent(None, progress=SAVED), ("succeeded", "last-step-saved")),
    ("unreachable", absent("created", unread=unread("jobsets")), ("unknown", "unreachable")),
    ("unreachable, refused at create", absent("not-created", unread=unread("jobsets")), ("unknown", "unreachable")),
    ("unreachable, cancelled", absent("cancelled", unread=unread("jobsets")), ("cancelled", "")),
    (
        "unreachable, but the bucket answers",
        absent("created", unread=unread("jobsets"), progress=SAVED),
        ("succeeded", "last-step-saved"),
    ),
    ("gone, recorded as running", absent("running"), ("unknown", "jobset-gone")),
    ("gone, nothing saved", absent("created", progress=progress()), ("unknown", "jobset-gone")),
    ("gone, steps not known", absent("created", steps=None, progress=SAVED), ("unknown", "jobset-gone")),
    ("unreachable, no record", absent(None, unread=unread("jobsets")), ("unknown", "unreachable")),
)

CASES: tuple[Case, ...] = (*QUEUED, *EVICTED, *STARTED, *PATHWAYS, *RUNNING, *STALLED, *ENDS, *GONE, *SERVERS)

LOCAL: tuple[Case, ...] = (
    ("training", local("running", alive=True, progress=training(3)), ("training", "")),
    ("compiling", local("running", alive=True, progress=progress(phase="compiling")), ("compiling", "")),
    (
        "trainer starting",
        local("running", alive=True, progress=progress(source="record")),
        ("starting", "trainer-starting"),
    ),
    ("submitting", local("submitting", alive=True, progress=progress()), ("starting", "trainer-starting")),
    ("progress not read", local("running", alive=True, progress=None), ("training", "progress-not-read")),
    (
        "conversion",
        local("running", alive=True, work="convert", progress=progress(said_at=CREATED)),
        ("training", "cpu-job"),
    ),
    (
        "stalled",
        local("running", alive=True, progress=training(said_at="2026-11-21T11:00:00Z")),
        ("stalled", "no-step"),
    ),
    ("killed", local("running"), ("failed", "killed")),
    ("killed after a checkpoint", local("running", progress=progress(saved_step=3)), ("failed", "killed")),
    (
        "killed after its last checkpoint",
        local("running", progress=progress(saved_step=6)),
        ("succeeded", "last-step-saved"),
    ),
    ("completed", local("completed"), ("succeeded", "")),
    ("ended short", local("short"), ("failed", "ended-short")),
    ("data ended", local("short", progress=training(3, data_ended=True)), ("failed", "data-ended")),
    ("failed", local("failed"), ("failed", "trainer-failed")),
    (
        "failed after its last step",
        local("failed", progress=training(6, saved_step=6)),
        ("succeeded", "after-last-step"),
    ),
    (
        "NaN loss at its last step",
        local("failed", progress=training(6, saved_step=6, aborted="NaN loss")),
        ("failed", "aborted"),
    ),
    (
        "completed with exit status 139",
        local("completed", record=Recorded(outcome="completed", reason="exit status 139")),
        ("succeeded", "after-last-step"),
    ),
    ("NaN loss", local("failed", progress=training(3, aborted="NaN loss")), ("failed", "aborted")),
    (
        "live without targets",
        local("running", alive=True, progress=training(3, no_target_steps=3)),
        ("training", "no-target-tokens"),
    ),
    ("no targets", local("completed", progress=training(6, no_target_steps=6)), ("failed", "no-target-tokens")),
    (
        "loss not finite in 4 steps",
        local("completed", progress=training(6, not_finite_steps=4)),
        ("failed", "loss-not-finite"),
    ),
    ("loss of 0", local("completed", progress=training(6, zero_loss_steps=6)), ("succeeded", "")),
    (
        "data ended, no targets",
        local("short", progress=training(3, data_ended=True, no_target_steps=3)),
        ("failed", "no-target-tokens"),
    ),
    (
        "failed without targets",
        local("failed", progress=training(3, no_target_steps=3)),
        ("failed", "no-target-tokens"),
    ),
    (
        "killed without targets",
        local("running", progress=progress(saved_step=6, no_target_steps=3)),
        ("failed", "no-target-tokens"),
    ),
    (
        "interrupted without targets",
        local("interrupted", progress=training(3, no_target_steps=3)),
        ("cancelled", "interrupted"),
    ),
    (
        "recorded as without targets",
        local("failed", record=Recorded(outcome="failed", state_reason="no-target-tokens")),
        ("failed", "no-target-tokens"),
    ),
    ("interrupted", local("interrupted"), ("cancelled", "interrupted")),
    ("cancelled", local("cancelled"), ("cancelled", "")),
    ("outcome unknown", local("unknown"), ("unknown", "record-unknown")),
    ("outcome of a newer xsft", local("of-a-newer-xsft"), ("unknown", "record-unknown")),
    ("no record", local("", record=None), ("unknown", "not-found")),
    ("record not read", local("", record=None, unread=unread("record")), ("unknown", "record-not-read")),
    ("killed before its start", local("created"), ("failed", "killed")),
    (
        "failed after its data ended",
        local("failed", progress=training(3, data_ended=True)),
        ("failed", "trainer-failed"),
    ),
    ("NaN loss, ended short", local("short", progress=training(3, aborted="NaN loss")), ("failed", "ended-short")),
    ("NaN loss, completed", local("completed", progress=training(3, aborted="NaN loss")), ("succeeded", "")),
)
