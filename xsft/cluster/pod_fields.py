"""Pods of JobSets: what a state depends on. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec.json import Decoder
from msgspec.structs import replace

from xsft.base.aliases import JsonObject
from xsft.base.lenient import count
from xsft.base.moments import seconds_between
from xsft.base.names import MODES, ModeName
from xsft.cluster.objects import ConditionsStatus, KubernetesStruct, ObjectMetadata, PodSpec, typed
from xsft.cluster.observation import SERVER_JOB, Container, Pod, RunObject
from xsft.records.jobset_paths import TRAINER_CONTAINER
from xsft.records.labels import COMPLETION_INDEX, JOBSET_NAME, RESTART_ATTEMPT, RUN_LABEL, WORK_LABEL
from xsft.spec.modes import mode_rules
from xsft.spec.serving_inputs import CONTAINER, COPIER

REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
"""Labels that JobSet sets on each pod. source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go."""

ContainerPhase = Literal["waiting", "running", "terminated"]


class ContainerDetails(KubernetesStruct, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(KubernetesStruct, frozen=True, kw_only=True):
    """At most one of them is present."""

    terminated: ContainerDetails | None = None
    running: ContainerDetails | None = None
    waiting: ContainerDetails | None = None


class ContainerStatus(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(ConditionsStatus, frozen=True, kw_only=True):
    phase: str = "Unknown"
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodObject(KubernetesStruct, frozen=True, kw_only=True):
    metadata: ObjectMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


POD = Decoder(PodObject)


def pod_of(pod: PodObject) -> Pod:
    metadata, labels, status = pod.metadata, pod.metadata.labels, pod.status
    serves = labels.get(WORK_LABEL) == "serve"
    return Pod(
        name=metadata.name,
        jobset=labels.get(RUN_LABEL if serves else JOBSET_NAME, ""),
        replicated_job=SERVER_JOB if serves else labels.get(REPLICATED_JOB, ""),
        slice_index=count(labels.get(JOB_INDEX)),
        host=count(labels.get(COMPLETION_INDEX, metadata.annotations.get(COMPLETION_INDEX))),
        phase=status.phase,
        conditions=status.conditions,
        containers=_containers(pod),
        node=pod.spec.node_name or None,
        attempt=count(labels.get(RESTART_ATTEMPT)),
        deleting=metadata.deletion_timestamp is not None,
        created_at=metadata.creation_timestamp,
        behind_s=_clock_behind_s(status),
    )


def parse_pod(json: JsonObject) -> Pod:
    """Return the pod of a dictionary. Raises Unreachable as `typed`."""
    return pod_of(typed(json, POD))


def _clock_behind_s(status: PodStatus) -> float:
    """Return the seconds by which the node's clock is at least behind the API server's: the kubelet acknowledges a pod
    after the API server has bound it. source: kubernetes@v1.35 pkg/kubelet/kubelet_pods.go generateAPIPodStatus,
    pkg/registry/core/pod/storage/storage.go setPodHostAndAnnotations.
    """
    bound_at = next((c.at for c in status.conditions if c.type == "PodScheduled" and c.status == "True"), None)
    return max(0.0, seconds_between(status.start_time, bound_at) or 0.0)


def _containers(pod: PodObject) -> tuple[Container, ...]:
    """Return the containers, the init containers first."""
    limits = {container.name: container.resources.limits.get("memory") for container in pod.spec.containers}
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return tuple(_container(status, memory=str(limits.get(status.name) or "")) for status in statuses)


def _container(status: ContainerStatus, *, memory: str) -> Container:
    container = replace(_in_state(status, status.state), memory=memory)
    if status.last_state.terminated is None:
        return container
    return replace(container, last=_in_state(status, status.last_state))


def _in_state(status: ContainerStatus, state: ContainerState) -> Container:
    phases: tuple[ContainerPhase, ...] = ("terminated", "running", "waiting")
    phase = next((phase for phase in phases if getattr(state, phase) is not None), None)
    details: ContainerDetails = getattr(state, phase) if phase else ContainerDetails()
    return Container(
        name=status.name,
        state=phase or "unknown",
        reason=details.reason,
        message=details.message,
        exit_code=details.exit_code,
        restarts=status.restart_count,
        started_at=details.started_at,
        finished_at=details.finished_at,
    )


def selector_of(jobset: RunObject) -> str:
    """Return the label selector of all pods of one run's object."""
    return f"{WORK_LABEL}=serve,{RUN_LABEL}={jobset.run_name}" if jobset.serves else pods_selector([jobset.name])


def pods_selector(jobsets: Iterable[str]) -> str:
    """Return the label selector of all pods of these JobSets, by exact name."""
    return f"{JOBSET_NAME} in ({','.join(sorted(jobsets))})"


def first_hosts_selector(jobsets: Iterable[str]) -> str:
    """Return the label selector of the first pod of each of their Jobs. `prints_steps` finds one per JobSet among them,
    and a first pod shows why its Job does not start (`FIRST_HOSTS`).
    """
    return f"{pods_selector(jobsets)},{COMPLETION_INDEX}=0"


def trainer_job(jobset: RunObject) -> str | None:
    """Return the replicated job whose first pod prints the steps; the first one of a JobSet of unknown origin."""
    if mode := _known_mode(jobset):
        return mode_rules(mode).trainer_job
    return jobset.jobs[0].name if jobset.jobs else None


def slice_job(jobset: RunObject) -> str | None:
    """Return the replicated job of the slices; the trainer's for a JobSet of unknown origin."""
    mode = _known_mode(jobset)
    return mode_rules(mode).replicated_job if mode else trainer_job(jobset)


def _known_mode(jobset: RunObject) -> ModeName | None:
    return next((mode for mode in MODES if mode == jobset.mode), None)


def prints_steps(pod: Pod, jobset: RunObject) -> bool:
    """Return whether the pod is host 0 of slice 0, or the Pathways head: every McJAX host prints steps, and this one is
    also the coordinator.
    """
    return (pod.jobset, pod.replicated_job, pod.slice_index, pod.host) == (jobset.name, trainer_job(jobset), 0, 0)


def trainer_container(pod: Pod) -> str | None:
    """Return the container whose output is the trainer's; of a server the one that copies the weights until it has
    ended. None if the pod has only one.
    """
    if pod.replicated_job == SERVER_JOB:
        copies = any(c.name == COPIER and c.state != "terminated" for c in pod.containers)
        return COPIER if copies else CONTAINER
    named = [c.name for c in pod.containers if c.name.startswith(TRAINER_CONTAINER)]
    return named[0] if named else None
