"""Pods of JobSets, and of servers: what a state depends on. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.json import Decoder

from xsft.base.amounts import seconds_between
from xsft.base.lenient import count
from xsft.cluster.objects import ConditionsStatus, KubernetesObject, KubernetesStruct, PodSpec
from xsft.records.jobset_paths import (
    COMPLETION_INDEX,
    JOBSET_NAME,
    RESTART_ATTEMPT,
    RUN_LABEL,
    TRAINER_CONTAINER,
    WORK_LABEL,
)
from xsft.spec.serving_inputs import CONTAINER, COPIER

REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
"""Labels that JobSet sets on each pod. source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go."""

SERVER_JOB = "server"
"""Name of the one job that a server counts as: `ReplicatedJob.name` and `Pod.replicated_job`."""


class ContainerWait(KubernetesStruct, frozen=True, kw_only=True):
    reason: str = ""
    """ImagePullBackOff, CrashLoopBackOff, …"""
    message: str = ""


class ContainerStart(KubernetesStruct, frozen=True, kw_only=True):
    started_at: str | None = None


class ContainerEnd(KubernetesStruct, frozen=True, kw_only=True):
    reason: str = ""
    """OOMKilled, Error, …"""
    message: str = ""
    """The termination message."""
    exit_code: int | None = None
    finished_at: str | None = None

    @property
    def failed(self) -> bool:
        return self.exit_code != 0


class ContainerState(KubernetesStruct, frozen=True, kw_only=True):
    """At most one of them is present."""

    terminated: ContainerEnd | None = None
    running: ContainerStart | None = None
    waiting: ContainerWait | None = None


class Container(KubernetesStruct, frozen=True, kw_only=True):
    """The status of a container."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """How its previous instance ended, if its pod restarted it."""

    @property
    def failed(self) -> bool:
        return self.state.terminated is not None and self.state.terminated.failed

    @property
    def failures(self) -> tuple[ContainerEnd, ...]:
        """Return how it failed, and how its previous instance did if its pod restarted it."""
        ends = (self.state.terminated, self.last_state.terminated)
        return tuple(end for end in ends if end is not None and end.failed)


class PodStatus(ConditionsStatus, frozen=True, kw_only=True):
    phase: str = "Unknown"
    """Pending | Running | Succeeded | Failed | Unknown."""
    start_time: str | None = None
    init_container_statuses: tuple[Container, ...] = ()
    container_statuses: tuple[Container, ...] = ()


class Pod(KubernetesObject, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def serves(self) -> bool:
        """Return whether it is the pod of a server."""
        return self.metadata.labels.get(WORK_LABEL) == "serve"

    @property
    def jobset(self) -> str:
        """Return the name of its JobSet; of a server its Deployment's."""
        return self.metadata.labels.get(RUN_LABEL if self.serves else JOBSET_NAME, "")

    @property
    def replicated_job(self) -> str:
        return SERVER_JOB if self.serves else self.metadata.labels.get(REPLICATED_JOB, "")

    @property
    def slice_index(self) -> int:
        """Return the index of the Job in its replicated job, from 0; for the slices' job, the slice."""
        return count(self.metadata.labels.get(JOB_INDEX))

    @property
    def host(self) -> int:
        """Return the completion index, from 0."""
        return count(self.metadata.labels.get(COMPLETION_INDEX, self.metadata.annotations.get(COMPLETION_INDEX)))

    @property
    def attempt(self) -> int:
        """Return the restart-attempt of its Job: how often the JobSet had been restarted."""
        return count(self.metadata.labels.get(RESTART_ATTEMPT))

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def containers(self) -> tuple[Container, ...]:
        """Return its containers, the init containers first."""
        return (*self.status.init_container_statuses, *self.status.container_statuses)

    @property
    def trainer_container(self) -> str | None:
        """Return the container whose output is the trainer's; of a server the one that copies the weights until it has
        ended. None if the pod has only one.
        """
        if self.serves:
            copies = any(c.name == COPIER and not c.state.terminated for c in self.containers)
            return COPIER if copies else CONTAINER
        return next((c.name for c in self.containers if c.name.startswith(TRAINER_CONTAINER)), None)

    @property
    def age_rank(self) -> tuple[bool, int, str, str]:
        """Return the sort key among the pods of one process: the largest has the role now, a pod that is being deleted
        only if there is no other.
        """
        return (not self.deleting, self.attempt, self.metadata.creation_timestamp, self.name)

    @property
    def clock_behind_s(self) -> float:
        """Return the seconds by which the node's clock, which writes the times of containers and log lines, is at least
        behind the API server's: the kubelet acknowledges a pod after the API server has bound it. source:
        kubernetes@v1.35 pkg/kubelet/kubelet_pods.go generateAPIPodStatus, pkg/registry/core/pod/storage/storage.go
        setPodHostAndAnnotations.
        """
        bound_at = (c.at for c in self.status.conditions if c.type == "PodScheduled" and c.status == "True")
        return max(0.0, seconds_between(self.status.start_time, next(bound_at, None)) or 0.0)

    def memory_limit(self, container: str) -> str:
        """Return the memory limit of a container, as Kubernetes writes it; empty without one."""
        limits = (spec.resources.limits.get("memory") for spec in self.spec.containers if spec.name == container)
        return str(next(limits, None) or "")


POD = Decoder(Pod)


def pods_selector(jobsets: Iterable[str]) -> str:
    """Return the label selector of all pods of these JobSets, by exact name."""
    return f"{JOBSET_NAME} in ({','.join(sorted(jobsets))})"


def first_hosts_selector(jobsets: Iterable[str]) -> str:
    """Return the label selector of the first pod of each of their Jobs. `prints_steps` finds one per JobSet among them,
    and a first pod shows why its Job does not start (`FIRST_HOSTS`).
    """
    return f"{pods_selector(jobsets)},{COMPLETION_INDEX}=0"
