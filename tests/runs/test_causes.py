"""The one cause of realistic evidence: words as Kueue 0.16, JobSet 0.10, Kubernetes 1.35 and MaxText write them."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kubeobjects import kube_event
from tests.replacing import replace
from tests.runs.arbitrary import containers, listed, observations, statuses, text, times
from tests.runs.cases import CASES, COMPLETED, HELD, LOCAL, PREEMPTED, STARTING, STATUSLESS, absent, failing
from tests.runs.messages import MESSAGES
from tests.runs.seen import (
    ADMITTED,
    NOW,
    PENDING,
    QUOTA,
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
from xsft.base.names import StageWork
from xsft.base.problems import error, warning
from xsft.cluster.evidence import AttemptEnd, Diagnosis, Event, Evidence, Log, Neighbour
from xsft.cluster.objects import Condition, Quota
from xsft.cluster.observation import Before, Observation, Recorded, ReplicatedJob, Status, Unread
from xsft.cluster.pod_fields import Container, Pod
from xsft.records.jobset_paths import RESTART_ATTEMPT
from xsft.runs.cause_rule import Cause, Explanation
from xsft.runs.causes import explain_state, found_of, groups, words
from xsft.runs.classify import classify
from xsft.trainer.kernel_kills import TRAINER, killed_text

RULES = tuple(rule for group in groups() for rule in group)


def why(observed: Observation, **more: Any) -> Explanation:
    return explain_state(Evidence(seen=observed, status=classify(observed), **more))


def ask(observed: Observation, **more: Any) -> Callable[[], Explanation]:
    """Return what explains it when it is called, in the test."""
    return partial(why, observed, **more)


def held(message: str, reason: str = "Pending") -> Observation:
    reserved = condition("QuotaReserved", "False", reason, message)
    return observation(jobset=HELD, workload=workload(reserved, priority=500), pods=(), progress=None)


def evicted(reason: str, message: str) -> Observation:
    out = condition("Evicted", "True", reason, message)
    return observation(jobset=HELD, workload=workload(WAITING, out), pods=(), progress=None)


def starting(*waits: Container) -> Observation:
    pod_object = pod(1, 3, "Pending", containers=waits)
    return observation(jobset=replace(STARTING, image="gcr.io/p/maxtext:v1"), pods=pods((pod_object,)), progress=None)


def unplaced(message: str) -> Observation:
    changed_unschedulable = replace(UNSCHEDULABLE, message=message)
    pod_object = pod(1, 0, "Pending", conditions=(changed_unschedulable,), containers=(), node=False)
    return observation(jobset=STARTING, pods=(pod_object,), progress=None)


def event(reason: str, message: str, object: str = "Pod/deepseek-ultrachat-slice-job-1-0-xtx22") -> Event:
    return kube_event(reason, message=message, object=object, at="2026-11-21T11:59:00Z")


def log(
    kind: str, text: str = "", *, slice_index: int = 0, host: int = 2, said_at: str | None = None, **more: Any
) -> Log:
    name = pod(slice_index, host).name
    diagnosis = Diagnosis(kind=kind, line=text or kind, text=text or kind, signature=more.pop("signature", kind))
    return Log(
        replicated_job="slice-job",
        slice_index=slice_index,
        host=host,
        pod=name,
        lines=("before", text or kind),
        said=diagnosis if kind else None,
        said_at=said_at,
        **more,
    )


def ended(code: int, reason: str = "Error", *, memory: str | None = None, **more: Any) -> Observation:
    """Slice 0 host 2 failed first, and the others were killed after it."""
    end = terminated(code, reason, finished_at="2026-11-21T11:49:50Z", **more)
    first = pod(0, 2, "Failed", containers=(end,), memory=memory)
    echoes = (
        pod(s, h, "Failed", deleting=True, containers=(terminated(137, finished_at="2026-11-21T11:49:55Z"),))
        for s, h in ((0, 0), (1, 1))
    )
    return failing("FailJobSetFailurePolicyAction", pods=pods((first, *echoes)))


def of_work(work: StageWork, observed: Observation) -> Observation:
    assert observed.jobset is not None
    return replace(observed, jobset=replace(observed.jobset, work=work))


CAPACITY = (
    "couldn't assign flavors to pod set slice-job: insufficient quota for google.com/tpu in flavor 2xv6e-256,"
    " previously considered podsets requests (0) + current podset request (1024) > maximum capacity (512)"
)
HEAD_POOL = "couldn't assign flavors to pod set pathways-head: flavor cpu-user doesn't match node affinity"
TAINT = (
    "couldn't assign flavors to pod set slice-job: untolerated taint {spot true NoSchedule <nil>} in flavor spot-v6e"
)
NODES = "0/134 nodes are available: "
PREEMPTION = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization in the ClusterQueue"
AHEAD = (Neighbour(name="nightly", priority=500, position=0), Neighbour(name="big", priority=1000, position=1))
HOLDER = Neighbour(name="qwen3", priority=500, holds="512 google.com/tpu")

RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed:"
    " unable to start container process:"
)
NO_PROGRAM = f'{RUNC} error during container init: exec: "bash": executable file not found in $PATH'
"""source: runc@v1.3 libcontainer/standard_init_linux.go; containerd@v2.1 internal/cri/server/container_start.go."""
NO_PLATFORM = 'failed to pull and unpack image "x": no match for platform in manifest: not found'
"""source: containerd@v2.1 core/images/image.go."""
NFS = "MountVolume.SetUp failed for volume nfs : mount failed: exit status 32 mount.nfs: access denied by server"
LOW = "The node was low on resource: {}. Threshold quantity: 10120387530, available: 9879932Ki. "
POD_DISK = "Pod ephemeral local storage usage exceeds the total limit of containers 100Gi. "
"""source: kubernetes@v1.35 pkg/kubelet/eviction/helpers.go."""


def disrupted(reason: str, message: str) -> Condition:
    return condition("DisruptionTarget", reason=reason, message=message)


Row = tuple[str, Callable[[], Explanation], Sequence[str]]

QUEUE: tuple[Row, ...] = (
    (
        "quota",
        ask(
            held(PENDING),
            holders=(HOLDER,),
            ahead=AHEAD[:1],
            quotas=(Quota(flavor="2xv6e-256", resource="google.com/tpu", total="512", used="512"),),
        ),
        ("512 more google.com/tpu", "2xv6e-256", "qwen3 (512 google.com/tpu, priority 500)", "nightly", "512 of 512"),
    ),
    ("quota", ask(held(f"{PENDING}, flavor spot doesn't match node affinity")), ("512 more",)),
    (
        "never-fits",
        ask(held(CAPACITY)),
        ("1024 google.com/tpu", "maximum of the flavor 2xv6e-256 is 512", "can never start"),
    ),
    ("quota-zero", ask(held(CAPACITY.replace("(512)", "(0)"))), ("quota is 0", "Use another TPU type")),
    ("flavor-mismatch", ask(held(HEAD_POOL)), ("pathways-head", "cpu-user")),
    ("flavor-mismatch", ask(held("flavor 2xv6e-256 doesn't match node affinity")), ("2xv6e-256",)),
    ("flavor-taint", ask(held(TAINT)), ("spot-v6e", "{spot true NoSchedule <nil>}")),
    ("preempting", ask(held(f"{PENDING}. Pending the preemption of 1 workload(s)")), ("preempting 1 run",)),
    ("local-queue-missing", ask(held("LocalQueue nosuch doesn't exist", "Inadmissible")), ("nosuch",)),
    ("cluster-queue-missing", ask(held("ClusterQueue gone doesn't exist", "Inadmissible")), ("gone",)),
    ("queue-stopped", ask(held("LocalQueue main is stopped", "Inadmissible")), ("LocalQueue main is stopped",)),
    (
        "queue-stopped",
        ask(held("ClusterQueue cluster-queue is inactive", "Inadmissible")),
        ("ClusterQueue cluster-queue",),
    ),
    (
        "queue-stopped",
        ask(held(""), cluster_queue=condition("Active", "False", "Stopped", "Can't admit new workloads: is stopped.")),
        ("admits no runs now",),
    ),
    (
        "namespace-refused",
        ask(held("Workload namespace doesn't match ClusterQueue selector", "Inadmissible")),
        ("namespace",),
    ),
    ("behind-priority", ask(held(""), ahead=AHEAD), ("behind 1 of higher priority: big",)),
    ("behind", ask(held(""), ahead=AHEAD[:1]), ("behind 1 that came before it: nightly",)),
    (
        "admission-checks",
        ask(observation(jobset=HELD, workload=workload(QUOTA), pods=())),
        ("provisioning",),
    ),
    (
        "priority-class-missing",
        ask(observation(jobset=HELD, workload=None, pods=()), missing=("PriorityClass/urgent",)),
        ("PriorityClass urgent not found",),
    ),
    (
        "suspended",
        ask(observation(jobset=replace(HELD, queue=None), workload=None, pods=()), missing=("PriorityClass/urgent",)),
        ("no queue", "kubectl -n default patch jobset deepseek-ultrachat", '\'{"spec":{"suspend":false}}\''),
    ),
    ("no-workload", ask(observation(jobset=HELD, workload=None, pods=()), missing=()), ("PriorityClass",)),
    (
        "deactivated",
        ask(evicted("Deactivated", "The workload is deactivated")),
        ("deactivated", '\'{"spec":{"active":true}}\'', "jobset-deepseek-ultrachat-ab12c"),
    ),
    ("preempted", ask(evicted("Preempted", PREEMPTION), preemptor="urgent-run"), ("preempted by urgent-run",)),
    ("preempted", ask(evicted("Preempted", PREEMPTION)), ("by another run due to prioritization",)),
    (
        "preempted",
        ask(evicted("Preempted", "Preempted to accommodate a workload due to reclamation within the cohort; x")),
        ("by another run due to reclamation within the cohort and waits",),
    ),
    ("queue-stopped", ask(evicted("ClusterQueueStopped", "The ClusterQueue is stopped")), ("drained",)),
    ("time-limit", ask(evicted("DeactivatedDueToMaximumExecutionTimeExceeded", "exceeding")), ("time limit",)),
    ("evicted", ask(evicted("NodeFailures", "…")), ("(NodeFailures)",)),
    (
        "broken-spec",
        ask(
            observation(jobset=STATUSLESS, pods=(), progress=None),
            dry_run=(error("job-refused", "image.ref", "containers[0].image: Required value", "Name an image."),),
        ),
        ("containers[0].image: Required value", "Name an image."),
    ),
    (
        "broken-spec",
        ask(
            observation(jobset=STATUSLESS, pods=(), progress=None),
            dry_run=(warning("jobs-not-checked", "", "you may not create jobs.batch", "Ask for it."),),
        ),
        ("no Job was created", "jobset-controller-manager"),
    ),
    (
        "jobset-controller",
        ask(observation(jobset=STATUSLESS, pods=(), progress=None), dry_run=()),
        ("may not be running",),
    ),
    ("broken-spec", ask(observation(jobset=STATUSLESS, pods=(), progress=None)), ("jobset-controller-manager",)),
)

PODS: tuple[Row, ...] = (
    (
        "no-capacity",
        ask(
            unplaced(f"{NODES}134 node(s) didn't match Pod's node affinity/selector."),
            events=(event("FailedScaleUp", "Node scale up in zones us-east5-b failed: GCE out of resources."),),
        ),
        ("no capacity for these machines",),
    ),
    (
        "exclusive-placement",
        ask(unplaced(f"{NODES}6 Insufficient google.com/tpu, 128 node(s) didn't match pod anti-affinity rules.")),
        ("whole node pool",),
    ),
    (
        "no-free-chips",
        ask(unplaced(f"{NODES}6 Insufficient cpu, 64 Insufficient google.com/tpu.")),
        ("nodes have no cpu",),
    ),
    (
        "no-free-chips",
        ask(unplaced(f"{NODES}128 Insufficient google.com/tpu. preemption: …")),
        ("no google.com/tpu", "requests more than a node has"),
    ),
    (
        "tainted-nodes",
        ask(unplaced(f"{NODES}134 node(s) had untolerated taint {{node.kubernetes.io/not-ready: }}.")),
        ("taint node.kubernetes.io/not-ready",),
    ),
    (
        "no-such-nodes",
        ask(unplaced(f"{NODES}134 node(s) didn't match Pod's node affinity/selector. preemption: 0/134 …")),
        ("labels", "gke-tpu-topology"),
    ),
    ("no-nodes", ask(unplaced("no nodes available to schedule pods")), ("no nodes",)),
    ("not-scheduled", ask(unplaced(f"{NODES}134 node(s) were unhappy.")), ("fit on no node",)),
    ("image-name", ask(starting(waiting("InvalidImageName"))), ("gcr.io/p/maxtext:v1",)),
    (
        "image-denied",
        ask(
            starting(waiting("ImagePullBackOff")), events=(event("Failed", 'Failed to pull image "x": 403 Forbidden'),)
        ),
        ("cannot pull gcr.io/p/maxtext:v1: permission denied",),
    ),
    (
        "image-not-found",
        ask(starting(waiting("ErrImagePull", message='failed to resolve reference "x": x: not found'))),
        ("Image not found: gcr.io/p/maxtext:v1",),
    ),
    ("image-pull", ask(starting(waiting("ImagePullBackOff"))), ("cannot pull",)),
    (
        "secret-key-missing",
        ask(
            starting(
                waiting("CreateContainerConfigError", message="couldn't find key token in Secret default/hf-token")
            )
        ),
        ("Secret default/hf-token has no key token",),
    ),
    (
        "secret-missing",
        ask(starting(waiting("CreateContainerConfigError", message='secret "hf-token" not found'))),
        ("Secret hf-token not found",),
    ),
    (
        "secret-missing",
        ask(
            starting(waiting("ContainerCreating")),
            events=(event("FailedMount", 'MountVolume.SetUp failed for volume "t" : secret "hf-token" not found'),),
        ),
        ("Secret hf-token not found",),
    ),
    (
        "secret-missing",
        ask(starting(waiting("ContainerCreating")), missing=("Secret/hf-token",)),
        ("Secret hf-token not found",),
    ),
    ("container-config", ask(starting(waiting("CreateContainerError"))), ("could not be created",)),
    *(
        (name, ask(starting(waiting(reason, message=message))), (words,))
        for name, reason, message, words in (
            ("image-platform", "ErrImagePull", NO_PLATFORM, "gcr.io/p/maxtext:v1"),
            ("command-missing", "RunContainerError", NO_PROGRAM, "no program bash"),
            ("image-not-found", "ErrImagePull", 'failed to resolve reference "denied-project/i:t": i:t: not found', ""),
            ("command-not-executable", "RunContainerError", f'{RUNC} exec: "/run.sh": permission denied', "/run.sh"),
            ("image-platform", "RunContainerError", f"{RUNC} exec /bin/bash: exec format error", "processor"),
            ("container-start", "RunContainerError", f"{RUNC} setenv: no memory", "could not be started"),
        )
    ),
    ("command-missing", ask(ended(128, "StartError", message=NO_PROGRAM)), ("no program bash",)),
    ("volume-mount", ask(starting(waiting("ContainerCreating")), events=(event("FailedMount", NFS),)), (NFS,)),
    *(
        (name, ask(failing("FailedJobs", pods=(pod(1, 7, "Failed", conditions=(taken,)),))), (words,))
        for name, taken, words in (
            ("evicted-disk", disrupted("TerminationByKubelet", LOW.format("ephemeral-storage")), "fills the disk"),
            ("evicted-disk", disrupted("TerminationByKubelet", POD_DISK), "100Gi"),
            ("evicted-pressure", disrupted("TerminationByKubelet", LOW.format("memory")), "resource: memory."),
            ("pod-preempted", disrupted("PreemptionByScheduler", "default-scheduler: preempting"), "higher priority"),
            ("node-taken", disrupted("DeletionByPodGC", "PodGC: node no longer exists"), "no longer exists"),
            ("pod-disrupted", disrupted("WorkloadEvicted", "by a controller"), "(WorkloadEvicted)"),
        )
    ),
    (
        "pods-refused",
        ask(
            observation(jobset=STARTING, pods=(), progress=None),
            events=(event("FailedCreate", 'admission webhook "policy.example" denied the request', "Job/x"),),
        ),
        ("refuses to create",),
    ),
    (
        "node-taken",
        ask(
            failing(
                "FailJobSetFailurePolicyAction",
                pods=(
                    pod(
                        1,
                        7,
                        "Failed",
                        conditions=(
                            condition(
                                "DisruptionTarget", reason="DeletionByTaintManager", message="Taint manager: deleting"
                            ),
                        ),
                    ),
                ),
            )
        ),
        ("DeletionByTaintManager",),
    ),
    ("workers-after-head", ask(next(c[1] for c in CASES if c[2][1] == "workers-after-head")), ("head is ready",)),
)

POD = "Pod/deepseek-ultrachat-slice-job-0-2-xtx22"
AGAIN = jobset(jobs=slices(active=2), restarts=2, max_restarts=10, created_at="2026-11-21T11:50:00Z")
POLICY = kube_event(
    "RestartJobSetFailurePolicyAction",
    message="applying RestartJobSet failure policy action (first failed job: deepseek-ultrachat-slice-job-0)",
    object="JobSet/deepseek-ultrachat",
    at="2026-11-21T11:58:00Z",
)
_LIMIT = "Job has reached the specified backoff limit"
BACKOFF = kube_event("BackoffLimitExceeded", message=_LIMIT, object="Job/deepseek-ultrachat-slice-job-0", at=POLICY.at)
KILLING = kube_event(
    "OOMKilling",
    message="Memory cgroup out of memory: Killed process 2103 (python3) total-vm:1kB, anon-rss:1kB, file-rss:1kB",
    object="Node/gke-0-2",
    at="2026-11-21T11:57:58Z",
)
SEEN_BEFORE = Before(at="2026-11-21T11:57:00Z", state="training", step=120, saved_step=100)


def again(*its_pods: Pod, **changes: Any) -> Observation:
    """Restarted twice, and its pods come up."""
    return observation(**({"jobset": AGAIN, "pods": its_pods, "progress": None} | changes))


RESTARTED: tuple[Row, ...] = (
    (
        "restarted-memory",
        ask(again(before=SEEN_BEFORE), events=(POLICY, BACKOFF), node_events=(KILLING,)),
        (
            "2 of 10 times",
            "At 2026-11-21T11:57:58Z",
            "ran out of memory",
            "training, step 120, checkpoint 100",
            "gcloud",
        ),
    ),
    (
        "restarted-found",
        ask(
            again(before=replace(SEEN_BEFORE, found="The host ran out of memory. [slice 0 host 2]")),
            events=(POLICY, BACKOFF),
            node_events=(KILLING,),
        ),
        ("2 of 10 times", "Before the restart, xsft found", "The host ran out of memory. [slice 0 host 2]", "gcloud"),
    ),
    (
        "restarted-evicted",
        ask(again(), events=(POLICY, BACKOFF, kube_event("Evicted", message=POD_DISK, object=POD, at=KILLING.at))),
        ("a node evicted one of its pods", "100Gi", POD),
    ),
    (
        "restarted-node",
        ask(
            again(), events=(POLICY, kube_event("NodeNotReady", message="Node is not ready", object=POD, at=KILLING.at))
        ),
        ("stopped answering", POD),
    ),
    (
        "restarted-deadline",
        ask(again(), events=(POLICY, replace(BACKOFF, reason="DeadlineExceeded"))),
        ("2 of 10 times", "deepseek-ultrachat-slice-job-0 ran longer"),
    ),
    (
        "restarted",
        ask(again(), events=(BACKOFF, POLICY)),
        (
            "2 of 10 times, the last time at 2026-11-21T11:58:00Z",
            "its Job deepseek-ultrachat-slice-job-0",
            "The cause is unknown",
            "killed (out of memory",
            'jobset-name"="deepseek-ultrachat"',
            'restart-attempt"="1"',
        ),
    ),
    ("restarted", ask(again(before=SEEN_BEFORE)), ("2 of 10 times", "after an hour", "at 2026-11-21T11:57:00Z")),
    (
        "restarted",
        ask(again(jobset=replace(AGAIN, ours=False, max_restarts=None))),
        ("restarted 2 times. The cause is unknown",),
    ),
)

EARLIER = Diagnosis(kind="hub-busy", line="429", text="429", signature="", earlier=True)
LOOP = AttemptEnd(name="deepseek-ultrachat", signature="config-error", step=None)
FAILED: tuple[Row, ...] = (
    (
        "oom-host",
        ask(ended(137, "OOMKilled"), logs=(log("exception", "KeyError: 'x'"),)),
        ("jax-tpu was killed for memory",),
    ),
    (
        "oom-job",
        ask(of_work("convert", ended(137, "OOMKilled", memory="12Gi"))),
        ("(convert)", "12Gi", "--set target=local"),
    ),
    (
        "oom-head",
        ask(
            failing(
                "ReachedMaxRestarts",
                pods=(pod(phase="Failed", replicated_job="pathways-head", containers=(terminated(137, "OOMKilled"),)),),
            )
        ),
        ("Pathways head",),
    ),
    ("config-error", ask(ended(2), logs=(log("config-error", "MaxText does not know the key 'stepz'"),)), ("'stepz'",)),
    (
        "crash-loop",
        ask(ended(2), logs=(log("config-error", "MaxText does not know the key 'stepz'"),), earlier=(LOOP, LOOP)),
        ("in the same way 3 times", "'stepz'"),
    ),
    (
        "not-a-number",
        ask(ended(1), logs=(log("not-a-number", "MaxText stopped because of NaN loss"),)),
        ("step 400 of 1000",),
    ),
    ("not-a-number", ask(observation(progress=training(aborted="NaN loss"))), ("step 400 of 1000",)),
    *(
        (kind, ask(ended(1), logs=(log(kind, "The line"),)), (words,))
        for kind, words in (
            ("hbm", "HBM"),
            ("kernel-memory", "The line"),
            ("disk-full", "A file system that this process writes to is full"),
            ("host-memory", "not the chips' HBM"),
            ("message-too-large", "gRPC"),
            ("checkpoint-damaged", "damaged or missing"),
            ("hub-unreachable", "did not answer, or refused"),
            ("bucket-missing", "does not exist"),
            ("login-refused", "no valid Google login"),
            ("bucket-busy", "The line"),
            ("bucket-unreachable", "could not be reached"),
            ("peer-late", "kubectl -n default get pods"),
            ("checkpoint-missing", "No checkpoint was found"),
            ("checkpoint-scan-layers", "scan_layers"),
            ("checkpoint-ocdbt", "OCDBT"),
            ("checkpoint-shape", "do not match the workload's model"),
            ("chat-template", "chat template"),
            ("data-columns", "columns"),
            ("data-empty", "no rows"),
            ("data-unreadable", "all retries"),
            ("profiler-steps", "profiler"),
            ("hub-denied", "gated"),
            ("hub-not-found", "not found on Hugging Face"),
            ("hub-busy", "too many hosts"),
            ("bucket-denied", "bucket"),
            ("tpu-init", "initialised"),
            ("module-missing", "module"),
            ("command-missing", "program"),
            ("exception", "raised: The line"),
            ("dcn-timeout", "network between the slices"),
            ("peer-lost", "another one ended or stopped answering"),
            ("told-to-stop", "SIGTERM"),
        )
    ),
    (
        "data-ended",
        ask(
            observation(jobset=COMPLETED, progress=training(400, data_ended=True)),
            logs=(log("data-ended", "Exception in load_next_train_batch: …"),),
        ),
        ("step 400 of 1000", "num_epoch"),
    ),
    ("data-ended", ask(observation(jobset=COMPLETED, progress=training(400, data_ended=True))), ("step 400 of 1000",)),
    (
        "deadline",
        ask(
            failing("FailJobSetFailurePolicyAction", pods=()),
            events=(
                replace(BACKOFF, last_timestamp="2026-11-21T11:50:00Z"),
                event("DeadlineExceeded", "Job was active longer than specified deadline", "Job/x"),
            ),
        ),
        ("activeDeadlineSeconds", "Job/x", "longer than specified deadline"),
    ),
    (
        "killed",
        ask(ended(137), logs=(replace(log("hub-busy", "429"), said=EARLIER),)),
        ("SIGKILL",),
    ),
    ("asked-to-restart", ask(ended(42)), ("exit code 42",)),
    ("terminated", ask(ended(143)), ("SIGTERM",)),
    ("killed", ask(ended(137)), ("SIGKILL",)),
    ("crashed", ask(ended(134)), ("native library",)),
    ("command-missing", ask(ended(127)), ("could not be run",)),
    ("exit-code", ask(ended(1, message="the last words")), ("exit code 1.", "the last words")),
    (
        "kueue-finished",
        ask(
            observation(
                jobset=jobset(suspended=True),
                workload=workload(condition("Finished", reason="FailedToStart", message="conflict for pool")),
            )
        ),
        ("FailedToStart", "conflict for pool"),
    ),
    (
        "jobset-failed",
        ask(failing("FailJobSetFailurePolicyAction", pods=())),
        ("FailJobSetFailurePolicyAction", "W-slice-job-0"),
    ),
)

STEP = "completed step: 400, seconds: 1.0, "


def worth(line: str) -> Log:
    return replace(log(""), lines=(line, "Saving checkpoint at step 400"))


SILENT = observation(
    progress=training(said_at="2026-11-21T11:30:00Z", saved_step=300),
    jobset=jobset(),
)
STATES: tuple[Row, ...] = (
    (
        "stalled",
        ask(
            SILENT,
            logs=(
                log("", host=1, said_at="2026-11-21T11:30:00Z"),
                log("", slice_index=1, host=7, said_at="2026-11-21T11:29:40Z"),
            ),
        ),
        ("30 minutes", "150 times its median step of 12 s", "step is 400 of 1000", "slice 1 host 7", "step 300"),
    ),
    (
        "stalled",
        ask(observation(progress=progress(phase="compiling", said_at="2026-11-21T10:50:00Z"))),
        ("70 minutes",),
    ),
    (
        "stalled",
        ask(observation(progress=training(phase="evaluating", said_at="2026-11-21T10:30:00Z", saved_step=400))),
        ("nothing for 90 minutes", "last step is 400"),
    ),
    (
        "save-hangs",
        ask(observation(progress=training(phase="saving", said_at="2026-11-21T11:20:00Z"))),
        ("40 minutes",),
    ),
    ("no-output", ask(observation(progress=progress(said_at=None))), ("printed nothing",)),
    (
        "trainer-killed",
        ask(
            local(
                "failed",
                record=Recorded(outcome="failed", reason=killed_text(TRAINER, memory_bytes=4 * 10**9, kernel=None)),
            )
        ),
        ("killed", "4.0 GB"),
    ),
    ("recorded", ask(local("failed", record=Recorded(outcome="failed", reason="KeyError: 'x'"))), ("KeyError: 'x'",)),
    (
        "recorded",
        ask(absent("not-created", record=Recorded(outcome="not-created", reason="quota exceeded"))),
        ("quota exceeded",),
    ),
    ("ended-short", ask(observation(jobset=COMPLETED, progress=training(400))), ("step 400 of 1000",)),
    (
        "after-last-step",
        ask(failing("FailedJobs", pods=(), progress=training(1000, saved_step=1000))),
        ("the result is complete", "A process failed afterwards."),
    ),
    (
        "after-last-step",
        ask(
            failing(
                "FailedJobs",
                pods=(pod(0, 2, "Failed", containers=(terminated(139),)),),
                progress=training(1000, saved_step=1000),
            )
        ),
        ("the result is complete", "slice 0 host 2", "exit code 139"),
    ),
    (
        "after-last-step",
        ask(local("completed", record=Recorded(outcome="completed", reason="the trainer was ended by SIGSEGV"))),
        ("Afterwards: the trainer was ended by SIGSEGV.",),
    ),
    (
        "no-target-tokens",
        ask(observation(progress=training(no_target_steps=40)), logs=(worth(f"{STEP}total_weights: 0, loss: 0.000,"),)),
        ("40 steps in a row", "train.max_target_length", "xsft cancel", "slice 0 host 2", "total_weights: 0,"),
    ),
    (
        "no-target-tokens",
        ask(local("failed", record=Recorded(outcome="failed", state_reason="no-target-tokens"))),
        ("several steps in a row",),
    ),
    (
        "no-target-tokens",
        ask(
            failing("FailedJobs", pods=(), progress=training(1000, saved_step=1000, no_target_steps=40)),
            logs=(log("exception", "ValueError: late"),),
        ),
        ("under another name",),
    ),
    (
        "loss-not-finite",
        ask(observation(progress=training(not_finite_steps=9)), logs=(worth(f"{STEP}total_weights: 84, loss: nan,"),)),
        ("The loss of 9 steps", "abort_on_nan_loss", "loss: nan"),
    ),
    (
        "loss-zero",
        ask(observation(progress=training(zero_loss_steps=9)), logs=(worth(f"{STEP}total_weights: 84, loss: 0.000,"),)),
        ("0.000 at 9 steps", "total_weights: 84"),
    ),
    ("cancelled", ask(absent("cancelled")), ("xsft cancel",)),
    ("killed-here", ask(local("running")), ("this machine",)),
    ("steps-not-read", ask(observation(jobset=COMPLETED, progress=None)), ("also exits with 0",)),
    ("jobset-gone", ask(absent("created")), ("it was deleted",)),
    ("submitting", ask(absent("submitting")), ("this is safe",)),
    ("unreachable", ask(absent("created", unread=unread("jobsets"))), ("2026-11-21T12:00:00Z", "connection refused")),
    ("not-read", ask(observation(progress=None, unread=unread("log"))), ("was not read", "connection refused")),
    (
        "trainer-silent",
        ask(observation(jobset=jobset(ours=False), progress=progress(phase="starting"))),
        ("its progress is unknown",),
    ),
    ("nothing-wrong", ask(observation()), ("training, step 400 of 1000",)),
    ("waiting", ask(next(c[1] for c in CASES if c[0] == "admitted, Jobs with pods that come")), ("pods wait",)),
    ("state", ask(absent(None)), ("no record",)),
)

SERVING = {name: seen for name, seen, _ in SERVERS}
VLLM_LOG = Log(
    replicated_job="server",
    slice_index=0,
    host=0,
    pod="deepseek-ultrachat-serve-5f7d8c9b6d-xtx22",
    lines=("ValueError: no room for the cache",),
)
OF_SERVERS: tuple[Row, ...] = (
    ("server-no-node", ask(SERVING["a server without a node"]), ("134 nodes", "stages.serve.type")),
    ("server-image", ask(SERVING["a server without its image"]), ("vllm/vllm-tpu:v1", "stages.serve.image")),
    ("server-config", ask(SERVING["a server without its Secret"]), ("Secret",)),
    ("server-memory", ask(SERVING["a server that was killed for memory"]), ("exit code 137 (OOMKilled)",)),
    (
        "server-crash",
        ask(SERVING["a server that crashes"], logs=(VLLM_LOG,)),
        ("ended 3 times", "no room for the cache", "xsft logs deepseek-ultrachat-serve"),
    ),
    ("server-late", ask(SERVING["a server that loads too long"]), ("loading the model",)),
    ("server-unhealthy", ask(SERVING["a server that does not answer any more"]), ("/health",)),
    ("server-loading", ask(SERVING["a server that copies its weights"]), ("weights are being copied",)),
    ("server-up", ask(SERVING["a server that answers"]), ("/health answers",)),
)

ROWS: tuple[Row, ...] = (*OF_SERVERS, *QUEUE, *PODS, *RESTARTED, *FAILED, *STATES)


def test_each_evidence_has_its_one_cause() -> None:
    explained = [explain() for _, explain, _ in ROWS]
    assert [*enumerate(explanation.cause.id for explanation in explained)] == [*enumerate(name for name, _, _ in ROWS)]
    for explanation, (name, _, said) in zip(explained, ROWS, strict=True):
        all_words = "\n".join(
            (explanation.cause.message, explanation.cause.fix, explanation.cause.where, *explanation.cause.evidence)
        )
        assert [words for words in said if words not in all_words] == [], (name, all_words)


def test_every_rule_is_the_cause_of_a_tested_case() -> None:
    of_messages = {message_row["id"] for message_row in MESSAGES} | {
        "admitted-again",
        "container-restarted",
        "earlier-in-log",
    }  # tested below
    assert {rule.id for rule in RULES} | {"crash-loop"} == {row[0] for row in ROWS} | of_messages


def test_every_cause_reads_as_a_sentence_with_a_next_step() -> None:
    for explanation in (explain() for _, explain, _ in ROWS):
        for cause in (explanation.cause, *explanation.others):
            assert cause.message[0].isupper() or cause.id == "recorded", cause
            assert not re.search(r" [.,;:]|\s{2}|\(\)", cause.message + cause.fix), cause
            assert cause.fix or cause.id in ("nothing-wrong", "server-up")


def test_messages_of_rules_name_only_known_values() -> None:
    """A name in a message is one of `words`, of the pattern, or of the clue; each clue gives its names always."""
    known_words = words(Evidence(seen=observation(), status=classify(observation()))).keys()
    of_clues = {
        "by",
        "count",
        "names",
        "refused",
        "mend",
        "event",
        "image",
        "text",
        "first",
        "said",
        "meaning",
        "at",
        "found",
        "pods",
        "why",
        "work",
        "memory",
        "container",
    }
    for rule in RULES:
        names = {name for _, name, _, _ in string.Formatter().parse(rule.message + rule.fix) if name}
        assert names <= known_words | of_clues | set(re.compile(rule.pattern).groupindex), rule.id


def test_the_failing_worker_is_named_and_quoted() -> None:
    explanation = why(ended(2), logs=(log("config-error", "MaxText does not know 'stepz'"),))
    assert explanation.cause.where == "slice 0 host 2 (pod deepseek-ultrachat-slice-job-0-2-xtx22)"
    assert explanation.cause.evidence == ("MaxText does not know 'stepz'",)
    assert explanation.cause.fix.endswith("It is not restarted (restarts.max is 0).")


def test_a_known_line_that_is_not_at_the_end_is_a_second_cause() -> None:
    explanation = why(ended(137), logs=(replace(log("hub-busy", "429"), said=EARLIER),))
    (other,) = (other for other in explanation.others if other.id == "earlier-in-log")
    assert (explanation.cause.id, other.basis, other.message) == (
        "killed",
        "inferred",
        "Earlier in its log, which went on afterwards: 429",
    )


def test_restart_rules_are_named_when_a_process_ended() -> None:
    restarted = ended(1)
    assert restarted.jobset is not None
    more = replace(restarted, jobset=replace(restarted.jobset, restarts=1, max_restarts=3, conditions=()))
    assert "42 and 127 to 255 restart the run, 1 of 3 times" in why(ended_in(more)).cause.message


def killed_before(**changes: Any) -> Pod:
    """Return a pod of the attempt before, which may still exist."""
    end = terminated(137, "OOMKilled", finished_at="2026-11-21T11:58:00Z")
    return pod(0, 2, "Failed", **({"attempt": 1, "deleting": True, "containers": (end,)} | changes))


def test_a_remaining_pod_of_an_earlier_attempt_explains_the_restart() -> None:
    observed = again(killed_before(), pod(0, 0, "Pending", attempt=2, containers=()))
    explanation = why(observed, events=(POLICY, BACKOFF), node_events=(KILLING,))
    assert (explanation.state, explanation.reason, explanation.cause.id) == ("starting", "pods-pending", "oom-host")
    assert explanation.cause.message.startswith(
        "It was restarted 2 of 10 times, the last time for this: The container jax-tpu was killed"
    )
    assert explanation.cause.where == "slice 0 host 2 (pod deepseek-ultrachat-slice-job-0-2-xtx22)"
    past = {rule.id for group in groups() for rule in group if "starting" in rule.history}
    of_restart = {rule.id for rule in RULES if rule.id.startswith("restarted")}
    assert {"restarted", "restarted-node", "restarted-evicted"} < of_restart == past
    assert not {other.id for other in explanation.others} & past, "nothing is left, one would read"


def test_a_process_that_ended_is_reported_before_the_restart_that_follows() -> None:
    """Seen on a real control plane: the JobSet's counts say no more than that a slice is not ready."""
    end = terminated(137, "OOMKilled", finished_at="2026-11-21T11:59:58Z")
    failed = pod(0, 2, "Failed", containers=(end,))
    observed = observation(jobset=jobset(jobs=slices(ready=1, active=2)), pods=pods((failed,)), progress=None)
    assert (why(observed).reason, why(observed).cause.id) == ("pods-not-ready", "oom-host")
    assert why(observed).cause.message.startswith("The container jax-tpu was killed for memory")
    again = container(last=end)
    assert why(replace(observed, pods=pods((pod(0, 2, containers=(again,)),)))).cause.id == "container-restarted"


def pathways(*its_pods: Pod, **counts: int) -> Observation:
    """Return a run whose head is up and whose workers are not all ready: JobSet keeps StartupPolicyInProgress."""
    jobs = (
        ReplicatedJob(name="pathways-head", replicas=1, ready=1, active=1),
        ReplicatedJob(name="worker", replicas=2, **{"active": 2, **counts}),
    )
    jobset_object = jobset(
        mode="pathways", conditions=(condition("StartupPolicyInProgress"),), jobs=jobs, max_restarts=10
    )
    return observation(mode="pathways", jobset=jobset_object, pods=its_pods, progress=None)


def worker(now: Container, *, ended_with: Container, times: int) -> Pod:
    again = replace(now, last_state=ended_with.state, restart_count=times)
    return pod(0, 2, replicated_job="worker", containers=(again,))


@pytest.mark.parametrize(
    ("now", "reason"), [("CrashLoopBackOff", "crash-loop"), ("ContainerCreating", "pods-not-ready")]
)
def test_a_worker_in_a_crash_loop_is_the_cause_and_not_the_head(now: str, reason: str) -> None:
    end = terminated(1, finished_at="2026-11-21T11:59:30Z", message="no such flag: --resource_manager")
    observed = pathways(worker(waiting(now), ended_with=end, times=6))
    explanation = why(observed)
    assert (explanation.state, explanation.reason, explanation.cause.id) == ("starting", reason, "exit-code")
    assert explanation.cause.evidence == ("no such flag: --resource_manager",)
    assert "restarts the container, 6 times so far, whatever the exit code" in explanation.cause.message
    assert "127 to 255" not in explanation.cause.message


def test_a_worker_that_runs_again_for_a_moment_is_still_the_cause() -> None:
    end = terminated(1, finished_at="2026-11-21T11:59:30Z")
    explanation = why(pathways(worker(container(), ended_with=end, times=6)))
    assert (explanation.reason, explanation.cause.id, explanation.cause.basis) == (
        "pods-not-ready",
        "container-restarted",
        "direct",
    )
    assert "exit code 1 (Error)" in explanation.cause.message


def test_a_worker_that_was_killed_for_memory_and_runs_again_is_mentioned() -> None:
    end = terminated(137, "OOMKilled", finished_at="2026-11-21T11:30:00Z")
    observed = pathways(worker(container(), ended_with=end, times=2), ready=2)
    explanation = why(replace(observed, progress=training()))
    assert (explanation.state, explanation.cause.id) == ("training", "nothing-wrong")
    (other,) = [other for other in explanation.others if other.id == "container-restarted"]
    assert "was killed for memory" in other.message
    assert other.where.startswith("slice 0 host 2")


def test_workers_wait_for_the_head_only_until_they_have_begun() -> None:
    waits = why(pathways(active=0, suspended=2))
    assert (waits.reason, waits.cause.id, waits.cause.basis) == ("workers-after-head", "workers-after-head", "inferred")
    assert why(pathways()).reason == "pods-not-ready"


def test_a_failure_that_only_pods_show_is_kept() -> None:
    end = terminated(137, "OOMKilled", finished_at="2026-11-21T11:59:58Z")
    observed = observation(jobset=jobset(jobs=slices(ready=1, active=2)), progress=None)
    for its_pods, is_kept in (((pod(0, 2, "Failed", containers=(end,)),), True), ((), False)):
        evidence = Evidence(
            seen=replace(observed, pods=pods(its_pods)), status=Status(state="starting", reason="pods-not-ready")
        )
        found_text = found_of(evidence, explain_state(evidence).cause)
        assert (
            found_text.endswith(
                "[slice 0 host 2 (pod deepseek-ultrachat-slice-job-0-2-xtx22), seen at 2026-11-21T12:00:00Z]"
            )
            == is_kept
        )
        assert found_text.startswith("The container jax-tpu was killed") == is_kept
    old = Evidence(seen=again(killed_before()), status=Status(state="starting", reason="pods-pending"))
    assert found_of(old, explain_state(old).cause) == "", "it was restarted already, and this would be of the next"


def test_the_cause_of_a_blocked_start_precedes_the_cause_of_the_restart() -> None:
    now = pod(0, 0, "Pending", attempt=2, containers=(waiting("ImagePullBackOff"),))
    explanation = why(again(now), events=(POLICY,))
    assert (explanation.reason, explanation.cause.id, [other.id for other in explanation.others]) == (
        "image-pull",
        "image-pull",
        ["restarted"],
    )
    both = why(again(now, killed_before()), events=(POLICY,))
    assert [both.cause.id, *(other.id for other in both.others)] == ["image-pull", "oom-host"]


@pytest.mark.parametrize("phase", ["starting", "compiling", "training", "saving"])
def test_the_cause_of_a_restart_is_secondary_once_the_run_is_up(phase: Any) -> None:
    observed = observation(
        jobset=jobset(restarts=1), progress=progress(phase=phase, step=3 if phase == "training" else None)
    )
    explanation = why(observed, events=(POLICY,))
    ids = [explanation.cause.id, *(other.id for other in explanation.others)]
    assert ids == (["restarted"] if phase == "starting" else ["nothing-wrong", "restarted"])


def test_a_failure_at_another_time_does_not_explain_a_restart() -> None:
    old = replace(KILLING, last_timestamp="2026-11-21T11:30:00Z")
    assert why(again(), events=(POLICY,), node_events=(old,)).cause.id == "restarted"
    assert why(again(), node_events=(old,)).cause.id == "restarted-memory", (
        "its time is told, and nothing else is known"
    )
    other = replace(KILLING, reason="KernelOops")
    assert why(again(), events=(POLICY,), node_events=(other,)).cause.id == "restarted"
    assert why(again(jobset=replace(AGAIN, restarts=0)), node_events=(KILLING,)).cause.id == "waiting"


def ended_in(observed: Observation) -> Observation:
    """The same, its pods of the restart."""
    return replace(observed, pods=tuple(map(restarted, observed.pods or ())))


def restarted(pod_object: Pod) -> Pod:
    labels = {**pod_object.metadata.labels, RESTART_ATTEMPT: "1"}
    return replace(pod_object, metadata=replace(pod_object.metadata, labels=labels))


@pytest.mark.parametrize("name", SERVING)
def test_a_server_has_no_cause_of_a_run(name: str) -> None:
    """Whatever events there are, e.g. of a run that had its name."""
    events = (event("FailedScheduling", f"{NODES}134 Insufficient google.com/tpu."), POLICY, BACKOFF)
    explanation = why(SERVING[name], events=events, ahead=AHEAD, missing=("Secret/hf-token",))
    of_servers = {rule.id for rule in (*groups()[0], *groups()[-1])}
    assert {one.id for one in (explanation.cause, *explanation.others)} <= of_servers


def test_a_second_cause_is_shown_second() -> None:
    both = why(held(PENDING), ahead=AHEAD)
    assert (both.cause.id, [other.id for other in both.others]) == ("quota", ["behind-priority"])
    loop = why(ended(2), logs=(log("config-error"),), earlier=(LOOP,))
    assert (loop.cause.id, [other.id for other in loop.others]) == ("crash-loop", ["config-error"])
    nodes = why(
        observation(jobset=STARTING, pods=(pod(1, 0, "Pending", conditions=(UNSCHEDULABLE,), containers=()),)),
        ahead=AHEAD,
    )
    assert nodes.cause.id == "no-such-nodes"


@pytest.mark.parametrize(
    ("earlier", "step", "loops"),
    [
        ((LOOP,), None, True),
        ((), None, False),
        ((replace(LOOP, signature="other"),), None, False),
        ((replace(LOOP, signature=""),), None, False),
        ((LOOP, replace(LOOP, signature="other")), None, False),
        ((replace(LOOP, step=400),), 400, True),
        ((replace(LOOP, step=300),), 400, False),
        ((replace(LOOP, step=300),), None, True),
    ],
)
def test_a_crash_loop_is_the_same_end_without_progress(earlier: Any, step: int | None, loops: bool) -> None:
    ended_run = replace(ended(1), progress=None if step is None else training(step))
    assert (why(ended_run, logs=(log("config-error"),), earlier=earlier).cause.id == "crash-loop") == loops


def test_unknown_ends_are_not_a_crash_loop() -> None:
    assert why(ended(1), earlier=(replace(LOOP, signature=""),)).cause.id == "exit-code"


FOLLOWER = (
    'Error creating: admission webhook "vpod.kb.io" denied the request: follower pod node selector for topology domain'
    " not found. missing selector: cloud.google.com/gke-nodepool"
)


@pytest.mark.parametrize(
    ("message", "observed"),
    [
        pytest.param(FOLLOWER, observation(jobset=STARTING, pods=(), progress=None), id="tried-again-by-itself"),
        pytest.param('pods "x" is forbidden', observation(pods=None, progress=None), id="all-pods-are-up"),
    ],
)
def test_pods_that_were_refused_only_briefly_are_no_cause(message: str, observed: Observation) -> None:
    """source: jobset@v0.10.1 with exclusive placement: followers are refused until their first pod has a node."""
    explanation = why(observed, events=(event("FailedCreate", message, "Job/x"),))
    assert "pods-refused" not in {explanation.cause.id, *(other.id for other in explanation.others)}


def test_a_run_that_trains_after_an_eviction_is_well() -> None:
    """Kueue keeps the conditions, turned False, and events keep for an hour."""
    observed = observation(
        workload=workload(QUOTA, ADMITTED, replace(PREEMPTED, status="False", reason="QuotaReserved"))
    )
    old = event("FailedScheduling", f"{NODES}134 Insufficient google.com/tpu.")
    assert why(observed, events=(old,)).cause.id == "nothing-wrong"


def test_an_eviction_that_is_over_is_history() -> None:
    over = condition("Evicted", "False", "QuotaReserved", f"Previously: {PREEMPTION}", at="2026-11-21T11:00:00Z")
    explanation = why(observation(workload=workload(QUOTA, ADMITTED, over)))
    assert (explanation.cause.id, [other.id for other in explanation.others]) == ("nothing-wrong", ["admitted-again"])
    assert f"admitted it again at 2026-11-21T11:00:00Z: {PREEMPTION}" in explanation.others[0].message
    up_to_now = pods((pod(1, 0, "Pending", containers=()),))
    starts = why(observation(jobset=STARTING, workload=workload(QUOTA, ADMITTED, over), pods=up_to_now, progress=None))
    assert starts.cause.id == "admitted-again"


def test_a_worker_that_failed_again_is_in_a_crash_loop_before_its_pod_waits() -> None:
    end = terminated(1, finished_at="2026-11-21T11:59:30Z")
    assert why(pathways(worker(end, ended_with=end, times=2))).reason == "crash-loop"
    assert why(pathways(worker(end, ended_with=end, times=0))).reason == "pods-not-ready"


def test_old_lines_do_not_explain_a_stall() -> None:
    assert why(SILENT, logs=(log("hub-busy"),)).cause.id == "stalled"


def test_a_process_that_ended_explains_a_stall() -> None:
    changed_silent = replace(SILENT, pods=pods((pod(1, 1, containers=(terminated(134, finished_at=NOW),)),)))
    assert why(changed_silent).cause.id == "crashed"


def test_the_cause_of_unreachable_gives_the_time_of_the_last_known_state() -> None:
    observed = absent("created", unread=unread("jobsets"), last_known=classify(observation()))
    explanation = why(replace(observed, observed_at="2026-11-21T09:00:00Z"))
    assert (explanation.state, explanation.cause.id) == ("training", "unreachable")
    assert "2026-11-21T09:00:00Z" in explanation.cause.message


def test_every_stage_has_a_cause_without_more_evidence() -> None:
    for _, case, _ in (*CASES, *LOCAL):
        explanation = why(case)
        assert explanation.cause.message, case
        assert explanation.cause.id not in {other.id for other in explanation.others}, case


saids = st.builds(
    Diagnosis,
    kind=st.sampled_from(("config-error", "peer-lost", "hbm")) | text,
    line=text,
    text=text,
    signature=text,
    lost_peer=st.booleans(),
)
logs = st.builds(
    Log,
    replicated_job=text,
    slice_index=st.integers(0, 2),
    host=st.integers(0, 2),
    pod=text,
    lines=listed(text),
    said=st.none() | saids,
    said_at=st.none() | times,
)
events = st.builds(
    kube_event,
    reason=st.sampled_from(
        ("FailedScheduling", "Failed", "FailedCreate", "RestartJobSetFailurePolicyAction", "OOMKilling")
    ),
    message=text | st.just("(first failed job: {x})"),
    object=text | st.just("Job/{x}"),
    at=times,
)
neighbours = st.builds(
    Neighbour, name=text, priority=st.none() | st.integers(), position=st.none() | st.integers(), holds=text
)


@given(
    seen=observations,
    status=st.none() | statuses,
    logs=st.none() | listed(logs),
    events=st.none() | listed(events),
    node_events=st.none() | listed(events),
    ahead=st.none() | listed(neighbours),
    earlier=listed(st.builds(AttemptEnd, name=text, signature=text, step=st.none() | st.integers())),
    missing=st.none() | listed(text | st.just("Secret/x") | st.just("PriorityClass/x")),
    cluster_queue=st.none() | st.builds(Condition, type=text, status=text, reason=text, message=text),
    more=listed(containers),
    now=times,
)
def test_every_evidence_has_a_cause(
    seen: Observation, status: Any, more: Any, now: str, cluster_queue: Any, **given_evidence: Any
) -> None:
    seen = replace(
        seen, pods=(*(seen.pods or ()), pod(containers=more)), unread=(*seen.unread, Unread(what="log", why="{}"))
    )
    evidence = Evidence(seen=seen, status=status or classify(seen), cluster_queue=cluster_queue, **given_evidence)
    explanation = explain_state(evidence)
    assert isinstance(explanation.cause, Cause)
    assert (explanation.state, explanation.reason) == (evidence.status.state, evidence.status.reason)


def test_direct_causes_precede_inferred_causes_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their order in the file."""
    killed = ended(137, "OOMKilled")
    (rule,) = (
        rule_of_group for group in groups() for rule_of_group in group if rule_of_group.id == why(killed).cause.id
    )
    assert rule.basis == "direct"
    guess = replace(rule, id="guess", basis="inferred")
    for group in ((guess, rule), (rule, guess)):
        monkeypatch.setattr("xsft.runs.causes.groups", lambda group=group: (group,))
        assert why(killed).cause.id == rule.id
