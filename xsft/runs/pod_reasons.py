"""Find in pods why a run is not running yet, by type, status and reason only; and which process failed first. Pure.

When one of 128 processes dies, the others lose their peer and die too; then the Job controller kills the rest. The
cause is in one log; the other 127 report a lost peer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from xsft.base.moments import before, moment
from xsft.cluster.evidence import Diagnosis, Evidence, Log
from xsft.cluster.observation import SERVER_JOB, Container, Observation, Pod

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


def current(seen: Observation) -> tuple[Pod, ...]:
    """Return the current attempt's pods: without those from before a restart and those being replaced."""
    restarts = seen.jobset.restarts if seen.jobset else 0
    return tuple(pod for pod in seen.pods or () if not pod.deleting and pod.attempt >= restarts)


def trouble(pods: Sequence[Pod]) -> str | None:
    """Return why pods are not running, as a reason of `starting`: the most serious first. None: all are running."""
    if (found := stuck(pods)) or not any(pod.phase == "Pending" for pod in pods):
        return found
    return "containers-creating" if any(waiting_containers(pods)) else "pods-pending"


def stuck(pods: Sequence[Pod]) -> str | None:
    """Return why pods cannot start, as a reason of `starting`. None: all are running or are about to."""
    if any(unscheduled(pod) for pod in pods):
        return "not-scheduled"
    waiting = {container.reason for container in waiting_containers(pods)}
    if waiting & IMAGE_PULL:
        return "image-pull"
    if waiting & CONTAINER_CONFIG:
        return "container-config"
    if waiting & CONTAINER_START:
        return "container-start"
    ended_again = any(map(_ended_again, (c for pod in pods if pod.phase == "Running" for c in pod.containers)))
    return "crash-loop" if "CrashLoopBackOff" in waiting or ended_again else None


def _ended_again(container: Container) -> bool:
    """Return whether it failed, was restarted and failed again: for a moment, before its pod waits to restart it."""
    return container.failed and container.restarts > 0


def unscheduled(pod: Pod) -> bool:
    return pod.phase == "Pending" and any(
        c.type == "PodScheduled" and c.status != "True" and c.reason == "Unschedulable" for c in pod.conditions
    )


def waiting_containers(pods: Sequence[Pod]) -> Iterator[Container]:
    """Yield the waiting containers of pods that have not ended."""
    for pod in pods:
        if pod.phase not in {"Succeeded", "Failed"}:
            yield from (c for c in pod.containers if c.state == "waiting")


def oom_killed(pods: Sequence[Pod]) -> bool:
    """Return whether a container ran out of host memory; HBM running out is an error of the trainer."""
    return any(c.state == "terminated" and c.reason == "OOMKilled" for pod in pods for c in pod.containers)


def started_at(pods: Sequence[Pod]) -> Iterator[str]:
    """Yield when the current containers started."""
    for pod in pods:
        yield from (c.started_at for c in pod.containers if c.state == "running" and c.started_at)


def by_server_clock(time: str | None, pod: Pod) -> str | None:
    """Convert a time that the pod's node wrote: a node whose clock is behind must not make its pod look silent."""
    return before(time, -pod.behind_s) if time and pod.behind_s and moment(time) else time


KILLED = frozenset({137, 143})
"""SIGKILL and SIGTERM: the signals with which the Job controller and the kubelet end a container."""

PATHWAYS_HEAD = "pathways-head"


class Failure(Struct, frozen=True, kw_only=True):
    pod: Pod
    container: Container
    """Containers that terminated with a status other than 0."""
    log: Log | None = None

    @property
    def said(self) -> Diagnosis | None:
        return self.log.said if self.log else None

    @property
    def oom(self) -> bool:
        return self.container.reason == "OOMKilled"

    @property
    def in_place(self) -> bool:
        """Return whether its pod restarts the container, so that neither the pod nor its Job has failed."""
        return self.pod.phase not in {"Failed", "Succeeded"} and self.restarts > 0

    @property
    def restarts(self) -> int:
        """Return how often the pod has restarted that container."""
        return max((one.restarts for one in self.pod.containers if one.name == self.container.name), default=0)


def first_failure(evidence: Evidence) -> Failure | None:
    """Return the earliest failure of the latest failed attempt that is not a consequence of another one; within one
    second, by slice, then host."""
    found = tuple(_failures(evidence))
    latest = max((one.pod.attempt for one in found), default=0)
    return min((one for one in found if one.pod.attempt == latest), key=_failure_rank, default=None)


def failed_in_place(container: Container) -> bool:
    """Return whether the container failed, and its pod has restarted it or will."""
    return container.last is not None and container.last.failed


def suspects(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods with a failed container, the likeliest cause first: these logs are worth reading."""
    found = (Failure(pod=pod, container=container) for pod in pods for container in _failed_containers(pod))
    latest_first = sorted(found, key=lambda one: (-one.pod.attempt, *_failure_rank(one)))
    return tuple(dict.fromkeys(one.pod for one in latest_first))


def place(pod: Pod | Log) -> str:
    name = pod.name if isinstance(pod, Pod) else pod.pod
    if not name:
        return "this machine"
    if pod.replicated_job == PATHWAYS_HEAD:
        return f"the head (pod {name})"
    if pod.replicated_job == SERVER_JOB:
        return f"pod {name}"
    return f"slice {pod.slice_index} host {pod.host} (pod {name})"


def _failures(evidence: Evidence) -> Iterator[Failure]:
    logs = {log.pod: log for log in evidence.logs or ()}
    for pod in evidence.seen.pods or ():
        for container in _failed_containers(pod):
            yield Failure(pod=pod, container=container, log=logs.get(pod.name))


def _failed_containers(pod: Pod) -> Iterator[Container]:
    """Yield failed containers, including those that their pod has restarted."""
    for container in pod.containers:
        for one in (container, container.last):
            if one is not None and one.failed:
                yield one


def _failure_rank(one: Failure) -> tuple[bool, bool, float, bool, bool, int, int, str]:
    """Return the sort key; smaller is likelier. Kubelets report whole seconds, so within one second a kill counts as a
    consequence.

    A container is never a consequence if the node killed it for memory, or if the cluster was not yet deleting it.
    """
    ended = moment(one.container.finished_at)
    killed = one.container.exit_code in KILLED and not one.oom
    return (
        one.said is not None and one.said.lost_peer,
        ended is None,
        ended.timestamp() if ended else 0.0,
        one.pod.deleting,
        killed,
        one.pod.slice_index,
        one.pod.host,
        one.pod.name,
    )
