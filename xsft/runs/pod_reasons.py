"""Find in pods why a run is not running yet, by type, status and reason only; and which process failed first. Pure.

When one of 128 processes dies, the others lose their peer and die too; then the Job controller kills the rest. The
cause is in one log; the other 127 report a lost peer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from xsft.base.amounts import before, moment
from xsft.cluster.evidence import Diagnosis, Evidence, Log
from xsft.cluster.observation import Observation
from xsft.cluster.pod_fields import SERVER_JOB, Container, ContainerEnd, ContainerWait, Pod

IMAGE_PULL = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""source: kubernetes@v1.35 pkg/kubelet/images/types.go"""

CONTAINER_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "PreCreateHookError"})
"""source: kubernetes@v1.35 pkg/kubelet/kuberuntime/kuberuntime_container.go"""

CONTAINER_START = frozenset(
    {"RunContainerError", "StartError", "ContainerCannotRun", "PreStartHookError", "PostStartHookError"}
)
"""The container exists, and its program could not be started. source: kubernetes@v1.35
pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/container/sync_result.go; StartError: containerd@v2.1
internal/cri/server/container_start.go.
"""


def current(observation: Observation) -> tuple[Pod, ...]:
    """Return the current attempt's pods: without those from before a restart and those being replaced."""
    restarts = observation.jobset.restarts if observation.jobset else 0
    return tuple(pod for pod in observation.pods or () if not pod.deleting and pod.attempt >= restarts)


def trouble(pods: Sequence[Pod]) -> str | None:
    """Return why pods are not running, as a reason of `starting`: the most serious first. None: all are running."""
    if (reason := stuck(pods)) or not any(pod.status.phase == "Pending" for pod in pods):
        return reason
    return "containers-creating" if any(_waits(pods)) else "pods-pending"


def stuck(pods: Sequence[Pod]) -> str | None:
    """Return why pods cannot start, as a reason of `starting`. None: all are running or are about to."""
    if any(unscheduled(pod) for pod in pods):
        return "not-scheduled"
    waiting = {wait.reason for wait in _waits(pods)}
    if waiting & IMAGE_PULL:
        return "image-pull"
    if waiting & CONTAINER_CONFIG:
        return "container-config"
    if waiting & CONTAINER_START:
        return "container-start"
    # failed, restarted and failed again: for a moment, before its pod waits to restart it
    running = (container for pod in pods if pod.status.phase == "Running" for container in pod.containers)
    ended_again = any(container.failed and container.restart_count > 0 for container in running)
    return "crash-loop" if "CrashLoopBackOff" in waiting or ended_again else None


def unscheduled(pod: Pod) -> bool:
    return pod.status.phase == "Pending" and any(
        c.type == "PodScheduled" and c.status != "True" and c.reason == "Unschedulable" for c in pod.status.conditions
    )


def _waits(pods: Sequence[Pod]) -> Iterator[ContainerWait]:
    """Yield why containers of pods that have not ended wait."""
    for pod in pods:
        if not pod.ended:
            yield from (container.state.waiting for container in pod.containers if container.state.waiting)


def oom_killed(pods: Sequence[Pod]) -> bool:
    """Return whether a container ran out of host memory; HBM running out is an error of the trainer."""
    ends = (container.state.terminated for pod in pods for container in pod.containers)
    return any(end is not None and end.reason == "OOMKilled" for end in ends)


def started_at(pods: Sequence[Pod]) -> Iterator[str]:
    """Yield when the current containers started."""
    starts = (container.state.running for pod in pods for container in pod.containers)
    yield from (start.started_at for start in starts if start and start.started_at)


def by_server_clock(time: str | None, pod: Pod) -> str | None:
    """Convert a time that the pod's node wrote: a node whose clock is behind must not make its pod look silent."""
    behind_s = pod.clock_behind_s
    return before(time, -behind_s) if time and behind_s and moment(time) else time


KILLED = frozenset({137, 143})
"""SIGKILL and SIGTERM: the signals with which the Job controller and the kubelet end a container."""

PATHWAYS_HEAD = "pathways-head"


class Failure(Struct, frozen=True, kw_only=True):
    """A container that terminated with a status other than 0."""

    pod: Pod
    container: Container
    end: ContainerEnd
    """Of this instance of the container, or of the one before."""
    log: Log | None = None

    @property
    def said(self) -> Diagnosis | None:
        return self.log.said if self.log else None

    @property
    def oom(self) -> bool:
        return self.end.reason == "OOMKilled"

    @property
    def in_place(self) -> bool:
        """Return whether its pod restarts the container, so that neither the pod nor its Job has failed."""
        return not self.pod.ended and self.container.restart_count > 0


def first_failure(evidence: Evidence) -> Failure | None:
    """Return the earliest failure of the latest failed attempt that is not a consequence of another one; within one
    second, by slice, then host."""
    logs = {log.pod: log for log in evidence.logs or ()}
    failures = tuple(failures_of(evidence.seen.pods or (), logs=logs))
    latest = max((failure.pod.attempt for failure in failures), default=0)
    return min((one for one in failures if one.pod.attempt == latest), key=_failure_rank, default=None)


def suspects(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods with a failed container, the likeliest cause first: these logs are worth reading."""
    latest_first = sorted(failures_of(pods), key=lambda cause: (-cause.pod.attempt, *_failure_rank(cause)))
    return tuple({failure.pod.name: failure.pod for failure in latest_first}.values())


def place(pod: Pod | Log) -> str:
    name = pod.name if isinstance(pod, Pod) else pod.pod
    if not name:
        return "this machine"
    if pod.replicated_job == PATHWAYS_HEAD:
        return f"the head (pod {name})"
    if pod.replicated_job == SERVER_JOB:
        return f"pod {name}"
    return f"slice {pod.slice_index} host {pod.host} (pod {name})"


def failures_of(pods: Iterable[Pod], *, logs: Mapping[str, Log] = {}) -> Iterator[Failure]:
    """Yield the failed containers, including those that their pod has restarted. `logs`: by the pod's name."""
    for pod in pods:
        for container in pod.containers:
            for end in container.failures:
                yield Failure(pod=pod, container=container, end=end, log=logs.get(pod.name))


def _failure_rank(failure: Failure) -> tuple[bool, bool, float, bool, bool, int, int, str]:
    """Return the sort key; smaller is likelier. Kubelets report whole seconds, so within one second a kill counts as a
    consequence.

    A container is never a consequence if the node killed it for memory, or if the cluster was not yet deleting it.
    """
    ended = moment(failure.end.finished_at)
    killed = failure.end.exit_code in KILLED and not failure.oom
    return (
        failure.said is not None and failure.said.lost_peer,
        ended is None,
        ended.timestamp() if ended else 0.0,
        failure.pod.deleting,
        killed,
        failure.pod.slice_index,
        failure.pod.host,
        failure.pod.name,
    )
