"""The state of a server, from its Deployment and pods as the cluster holds them. Pure; nothing here raises."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from xsft.aliases import JsonObject
from xsft.launchers.labels import DIGEST_ANNOTATION, RUN_LABEL
from xsft.launchers.serving_manifest import COPIER
from xsft.reading.jobsets import conditions_of
from xsft.reading.lenient import count, mapping, text
from xsft.stages.stage import StageState
from xsft.states.model import Condition, Container, Pod

CRASHES = 3
"""Restarts of a container after which a server that crashes has failed; Kubernetes goes on trying."""
DEADLINE = "ProgressDeadlineExceeded"
"""source: kubernetes@v1.35 pkg/controller/deployment/util/deployment_util.go TimedOutReason"""


class SeenServer(Struct, frozen=True, kw_only=True):
    """A Deployment, reduced."""

    name: str
    uid: str
    run_name: str | None
    """None if xsft did not create it."""
    digest: str | None
    ready: int
    """Pods whose /health answers."""
    deleting: bool
    conditions: tuple[Condition, ...]


class ServerState(Struct, frozen=True, kw_only=True):
    """The state of a server and its evidence."""

    state: StageState
    why: str
    crashed: tuple[str, str] | None = None
    """Names of the pod and container whose last log lines say more."""


def server_of(json: JsonObject) -> SeenServer:
    metadata, status = mapping(json, "metadata"), mapping(json, "status")
    return SeenServer(
        name=text(metadata.get("name")) or "",
        uid=text(metadata.get("uid")) or "",
        run_name=text(mapping(metadata, "labels").get(RUN_LABEL)),
        digest=text(mapping(metadata, "annotations").get(DIGEST_ANNOTATION)),
        ready=count(status.get("readyReplicas")),
        deleting=text(metadata.get("deletionTimestamp")) is not None,
        conditions=conditions_of(status),
    )


def state_of(server: SeenServer, pods: Sequence[Pod]) -> ServerState:
    """Return the state; a ready pod decides, then a container that crashes, then the Deployment's deadline."""
    if server.ready:
        return ServerState(state="done", why="/health answers")
    crash = next(((pod, one) for pod in pods for one in pod.containers if _crashes(one)), None)
    if crash:
        pod, container = crash
        return ServerState(state="failed", why=_crash_text(container), crashed=(pod.name, container.name))
    why = _waiting_text(server, pods)
    deadline = _condition(server.conditions, "Progressing")
    if deadline and deadline.status == "False" and deadline.reason == DEADLINE:
        return ServerState(state="failed", why=f"{why}, and the time of the Deployment is over ({DEADLINE})")
    return ServerState(state="running", why=why)


def _crashes(one: Container) -> bool:
    return one.restarts >= CRASHES and one.last is not None


def _crash_text(one: Container) -> str:
    last = one.last or one
    reason = f" ({last.reason})" if last.reason else ""
    return f"its container {one.name} ended {one.restarts} times, last with exit code {last.exit_code}{reason}"


def _waiting_text(server: SeenServer, pods: Sequence[Pod]) -> str:
    pod = next((one for one in pods if not one.deleting), None)
    if pod is None:
        failure = _condition(server.conditions, "ReplicaFailure")
        return f"its pod cannot be created: {failure.message}" if failure else "its pod is being created"
    unscheduled = _condition(pod.conditions, "PodScheduled")
    if unscheduled and unscheduled.status == "False":
        return f"its pod waits for a node: {unscheduled.message}"
    stuck = next((one for one in pod.containers if one.state == "waiting" and one.message), None)
    if stuck:
        return f"its container {stuck.name} waits: {stuck.reason}: {stuck.message}"
    if any(one.name == COPIER and one.state != "terminated" for one in pod.containers):
        return "the weights are being copied"
    return "it is loading the model"


def _condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((one for one in conditions if one.type == kind), None)
