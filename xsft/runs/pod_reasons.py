"""Find the reason in pods why a run is not running yet. Pure; by type, status and reason only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xsft.base.moments import before, moment
from xsft.cluster.observation import Container, Observation, Pod

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
    return container.state == "terminated" and container.exit_code != 0 and container.restarts > 0


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
