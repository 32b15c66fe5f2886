"""Decide the state of a server on a cluster from its Deployment and pods. Pure; by type, status and reason only."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.base.stage import StageState
from xsft.base.state_names import State
from xsft.cluster.objects import Condition
from xsft.cluster.observation import RunObject, Status
from xsft.cluster.pod_fields import Container, ContainerEnd, Pod
from xsft.runs.pod_reasons import IMAGE_PULL, stuck, trouble
from xsft.spec.serving_inputs import COPIER

CRASHES = 3
"""Restarts of a container after which a pipeline stops waiting for it; Kubernetes itself keeps restarting it."""
DEADLINE = "ProgressDeadlineExceeded"
AVAILABLE = "NewReplicaSetAvailable"
"""Reasons of `Progressing`: the Deployment's deadline has passed, or its pod was ready once. source: kubernetes@v1.35
pkg/controller/deployment/util/deployment_util.go TimedOutReason, NewRSAvailableReason"""
OOM = "OOMKilled"
SERVING = "/health answers"


class ServerState(Struct, frozen=True, kw_only=True):
    """The state of a server and its evidence."""

    state: StageState
    """For a pipeline: `failed` if waiting will not help, although Kubernetes keeps restarting it."""
    status: Status
    """For `xsft status`: never an ended state while the Deployment exists and holds its accelerators."""
    why: str
    crashed: tuple[str, str] | None = None
    """Names of the pod and the container whose last log lines explain the state."""


def server_state(server: RunObject, pods: Sequence[Pod] | None) -> ServerState:
    """Return the state; a ready pod decides, then a container that crashes, then the Deployment's deadline. `pods`:
    None if they were not read.
    """
    read = ("deployment",) if pods is None else ("deployment", "pods")
    if server.deleting_at is not None:
        gone = Status(state="cancelled", reason="deleting", evidence=read)
        return ServerState(state="missing", status=gone, why="the Deployment is being deleted")
    if any(job.ready for job in server.jobs):
        return ServerState(state="done", status=Status(state="serving", evidence=read), why=SERVING)
    state, reason = _reason(server, pods)
    why = _waiting_text(server, pods or ())
    status = Status(state=state, reason=reason, evidence=read)
    crash = next(
        (
            (pod, container_status)
            for pod in pods or ()
            for container_status in pod.containers
            if _crashes(container_status)
        ),
        None,
    )
    if crash:
        pod, container = crash
        end = container.last_state.terminated or ContainerEnd()
        ends = f"ended {container.restart_count} times, last with exit code {end.exit_code}"
        return ServerState(
            state="failed",
            status=status,
            why=f"its container {container.name} {ends}{f' ({end.reason})' if end.reason else ''}",
            crashed=(pod.name, container.name),
        )
    if _is_late(server):
        over = f"{why}, and the deadline of the Deployment has passed ({DEADLINE})"
        return ServerState(state="failed", status=status, why=over)
    return ServerState(state="running", status=status, why=why)


def _reason(server: RunObject, pods: Sequence[Pod] | None) -> tuple[State, str]:
    """Return state and reason of a server that does not answer. A reason in a pod has priority over the deadline."""
    current = [pod for pod in pods or () if not pod.deleting]
    if named := _trouble(current):
        return "starting", named
    if _is_late(server):
        return "stalled", "start-deadline"
    if any(container.name == COPIER and container.state.running for pod in current for container in pod.containers):
        return "starting", "copying-weights"
    if not current or trouble(current):
        return "starting", "pods-not-ready"
    return ("stalled", "health-failing") if _was_ready(server) else ("starting", "loading-model")


def _trouble(pods: Sequence[Pod]) -> str | None:
    """Return why the server cannot start, if a pod names it."""
    containers = [status for pod in pods for status in pod.containers]
    ends = (container.last_state.terminated or container.state.terminated for container in containers)
    if any(end is not None and end.reason == OOM for end in ends):
        return "oom-killed"
    if any(_crashes(status) for status in containers):
        return "crash-loop"
    return stuck(pods)


def _crashes(container: Container) -> bool:
    return container.restart_count >= CRASHES and container.last_state.terminated is not None


def _is_late(server: RunObject) -> bool:
    progressing = _condition(server.conditions, "Progressing")
    return progressing is not None and (progressing.status, progressing.reason) == ("False", DEADLINE)


def _was_ready(server: RunObject) -> bool:
    progressing = _condition(server.conditions, "Progressing")
    return progressing is not None and progressing.reason == AVAILABLE


def _waiting_text(server: RunObject, pods: Sequence[Pod]) -> str:
    pod = next((one for one in pods if not one.deleting), None)
    if pod is None:
        failure = _condition(server.conditions, "ReplicaFailure")
        return f"its pod cannot be created: {failure.message.rstrip('.')}" if failure else "its pod is being created"
    unscheduled = _condition(pod.status.conditions, "PodScheduled")
    if unscheduled and unscheduled.status == "False":
        return f"its pod waits for a node: {unscheduled.message.rstrip('.')}"
    for container in pod.containers:
        wait = container.state.waiting
        if wait and (wait.message or wait.reason in IMAGE_PULL):
            return ": ".join((f"its container {container.name} waits", wait.reason, *filter(None, (wait.message,))))
    if any(one.name == COPIER and not one.state.terminated for one in pod.containers):
        return "the weights are being copied"
    return "/health no longer answers" if _was_ready(server) else "it is loading the model"


def _condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)
