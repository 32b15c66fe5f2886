"""Observations for tests, as a real control plane gave them (Kueue 0.16.1, JobSet 0.10.1, Kubernetes 1.35)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import convert

from tests.kubeobjects import kueue_workload
from xsft.cluster.objects import Condition, ContainerSpec, ObjectMetadata, PodSpec, Resources, Workload
from xsft.cluster.observation import Observation, Recorded, ReplicatedJob, RunObject, Unread
from xsft.cluster.pod_fields import JOB_INDEX, REPLICATED_JOB, SERVER_JOB, Container, ContainerState, Pod, PodStatus
from xsft.records.jobset_paths import COMPLETION_INDEX, JOBSET_NAME, RESTART_ATTEMPT, RUN_LABEL, WORK_LABEL
from xsft.trainer.progress import Progress

CREATED = "2026-11-21T10:00:00Z"
ADMITTED_AT = "2026-11-21T10:00:02Z"
ENDED_AT = "2026-11-21T11:50:00Z"
NOW = "2026-11-21T12:00:00Z"
RUN = "deepseek-ultrachat"
STEPS = 1000

PENDING = (
    "couldn't assign flavors to pod set slice-job: insufficient unused quota for google.com/tpu in flavor 2xv6e-256, "
    "512 more needed"
)


def condition(type: str, status: str = "True", reason: str = "", message: str = "", at: str = ADMITTED_AT) -> Condition:
    return Condition(type=type, status=status, reason=reason, message=message, at=at)


QUOTA = condition("QuotaReserved", reason="QuotaReserved", message="Quota reserved in ClusterQueue cluster-queue")
ADMITTED = condition("Admitted", reason="Admitted", message="The workload is admitted")
WAITING = condition("QuotaReserved", "False", "Pending", PENDING)
RESUMED = condition("Suspended", "False", "ResumeJobs", "jobset is resumed")
SUSPENDED = condition("Suspended", "True", "SuspendedJobs", "jobset is suspended")


def slices(**counts: int) -> tuple[ReplicatedJob, ...]:
    """XPK's one replicated job of a McJAX run, two slices."""
    return (ReplicatedJob(name="slice-job", replicas=2, **counts),)


UP = slices(ready=2, active=2)


def jobset(**changes: Any) -> RunObject:
    defaults: dict[str, Any] = {
        "name": RUN,
        "namespace": "default",
        "uid": "0b1d",
        "created_at": CREATED,
        "run_name": RUN,
        "ours": True,
        "mode": "mcjax",
        "steps": STEPS,
        "queue": "multislice-queue",
        "conditions": (RESUMED,),
        "jobs": UP,
    }
    return RunObject(**(defaults | changes))


def workload(*conditions: Condition, **changes: Any) -> Workload:
    return kueue_workload(f"jobset-{RUN}-ab12c", conditions=conditions or (QUOTA, ADMITTED), **changes)


def progress(**changes: Any) -> Progress:
    defaults: dict[str, Any] = {"source": "log", "read_at": NOW, "said_at": NOW}
    return Progress(**(defaults | changes))


def training(step: int = 400, **changes: Any) -> Progress:
    return progress(**({"phase": "training", "step": step, "loss": 1.5, "step_seconds": 12.0} | changes))


def observation(**changes: Any) -> Observation:
    """A run that trains, all of it read, unless changed."""
    defaults: dict[str, Any] = {
        "run_name": RUN,
        "target": "xpk",
        "observed_at": NOW,
        "mode": "mcjax",
        "steps": STEPS,
        "jobset": jobset(),
        "workload": workload(),
        "pods": pods(),
        "progress": training(),
        "record": Recorded(outcome="created", jobset=RUN, uid="0b1d"),
    }
    return Observation(**(defaults | changes))


def local(outcome: str, **changes: Any) -> Observation:
    alive, work = bool(changes.pop("alive", False)), changes.pop("work", None)
    defaults: dict[str, Any] = {
        "run_name": "tiny",
        "target": "local",
        "observed_at": NOW,
        "steps": 6,
        "record": Recorded(outcome=outcome, alive=alive, work=work),
    }
    return Observation(**(defaults | changes))


def container(*, started_at: str | None = None, **more: Any) -> Container:
    """A running container."""
    return _container({"running": {"startedAt": started_at}}, **more)


def waiting(reason: str, *, message: str = "", **more: Any) -> Container:
    return _container({"waiting": {"reason": reason, "message": message}}, **more)


def terminated(code: int | None, reason: str = "Error", *, finished_at: str | None = None, **more: Any) -> Container:
    message = more.pop("message", "")
    ended = {"exitCode": code, "reason": reason, "finishedAt": finished_at, "message": message}
    return _container({"terminated": ended}, **more)


def _container(state: Any, *, name: str = "jax-tpu", last: Container | None = None, restarts: int = 0) -> Container:
    before = last.state if last else ContainerState()
    return Container(name=name, state=convert(state, ContainerState), last_state=before, restart_count=restarts)


SCHEDULED = condition("PodScheduled", "True")
UNSCHEDULABLE = condition(
    "PodScheduled", "False", "Unschedulable", "0/134 nodes are available: 134 node(s) didn't match Pod's node affinity."
)
STARTED = container(started_at="2026-11-21T10:00:30Z")


def pod(
    slice_index: int = 0,
    host: int = 0,
    phase: str = "Running",
    *,
    name: str | None = None,
    jobset: str = RUN,
    replicated_job: str = "slice-job",
    attempt: int = 0,
    created_at: str = "",
    deleting: bool = False,
    node: bool = True,
    conditions: tuple[Condition, ...] = (SCHEDULED,),
    containers: tuple[Container, ...] = (STARTED,),
    memory: str | None = None,
) -> Pod:
    """A pod with the labels that JobSet sets. `memory`: the limit of its containers."""
    jobs = {JOBSET_NAME: jobset, REPLICATED_JOB: replicated_job, RESTART_ATTEMPT: str(attempt)}
    labels = {**jobs, JOB_INDEX: str(slice_index), COMPLETION_INDEX: str(host)}
    metadata = ObjectMetadata(
        name=f"{jobset}-{replicated_job}-{slice_index}-{host}-xtx22" if name is None else name,
        labels={RUN_LABEL: jobset, WORK_LABEL: "serve"} if replicated_job == SERVER_JOB else labels,
        creation_timestamp=created_at,
        deletion_timestamp=NOW if deleting else None,
    )
    limits = Resources(limits={"memory": memory})
    specs = tuple(ContainerSpec(name=container.name, resources=limits) for container in containers)
    spec = PodSpec(containers=specs, node_name=f"gke-{slice_index}-{host}" if node else None)
    status = PodStatus(phase=phase, conditions=conditions, container_statuses=containers)
    return Pod(metadata=metadata, spec=spec, status=status)


def pods(changed: Sequence[Pod] = (), *, hosts: int = 4) -> tuple[Pod, ...]:
    """Two slices; `changed` take the place of those they name."""
    by_place = {(p.slice_index, p.host): p for p in changed}
    return tuple(by_place.get((s, h), pod(s, h)) for s in range(2) for h in range(hosts))


def unread(*names: Any) -> tuple[Unread, ...]:
    return tuple(Unread(what=name, why="connection refused") for name in names)


SERVER = f"{RUN}-serve"
WAS_READY = condition("Progressing", "True", "NewReplicaSetAvailable")
LATE = condition("Progressing", "False", "ProgressDeadlineExceeded")


def server(*conditions: Condition, ready: int = 0, **changes: Any) -> RunObject:
    """The Deployment of a server."""
    defaults: dict[str, Any] = {
        "kind": "Deployment",
        "name": SERVER,
        "namespace": "default",
        "uid": "5e41",
        "created_at": CREATED,
        "run_name": SERVER,
        "ours": True,
        "work": "serve",
        "output": "gs://my-bucket/runs",
        "image": "vllm/vllm-tpu:v1",
        "conditions": conditions,
        "jobs": (ReplicatedJob(name=SERVER_JOB, replicas=1, ready=ready),),
    }
    return RunObject(**(defaults | changes))


def server_pod(*containers: Container, phase: str = "Running", **changes: Any) -> Pod:
    of_server = {"name": f"{SERVER}-5f7d8c9b6d-xtx22", "jobset": SERVER, "replicated_job": SERVER_JOB}
    return pod(phase=phase, containers=containers, **(of_server | changes))


def served(run_object: RunObject, *its: Pod, **changes: Any) -> Observation:
    """A server, read with its pods."""
    defaults: dict[str, Any] = {"jobset": run_object, "pods": its, "run_name": SERVER, "steps": None}
    return observation(workload=None, progress=None, record=None, **(defaults | changes))


VLLM = container(name="vllm")


def crashed(code: int, reason: str = "Error") -> Container:
    """After three restarts."""
    last = terminated(code, reason, name="vllm")
    return waiting("CrashLoopBackOff", name="vllm", restarts=3, last=last)
