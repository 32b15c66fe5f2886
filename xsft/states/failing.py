"""Which process failed first, the noise of its neighbours discounted. Pure.

When one of 128 processes dies, the others lose their peer and die too, then the Job controller kills what is left: the
cause is in one log, and the other 127 say that somebody else died.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from xsft.states.evidence import Evidence, Log, Said
from xsft.states.model import Container, Pod
from xsft.states.moments import moment

PEER_LOST = frozenset({"peer-lost", "dcn-timeout"})
"""Kinds of `Said` of a process that died because another one had."""

KILLED = frozenset({137, 143})
"""SIGKILL and SIGTERM: what the Job controller and the kubelet end a container with."""

PATHWAYS_HEAD = "pathways-head"


class Failure(Struct, frozen=True, kw_only=True):
    pod: Pod
    container: Container
    """Terminated, and not with 0."""
    log: Log | None = None

    @property
    def said(self) -> Said | None:
        return self.log.said if self.log else None

    @property
    def oom(self) -> bool:
        return self.container.reason == "OOMKilled"

    @property
    def in_place(self) -> bool:
        """Whether its pod starts the container again, so that neither the pod nor its Job has failed."""
        return self.pod.phase not in {"Failed", "Succeeded"} and self.restarts > 0

    @property
    def restarts(self) -> int:
        """How often the pod has started that container again."""
        return max((one.restarts for one in self.pod.containers if one.name == self.container.name), default=0)


def first_failure(evidence: Evidence) -> Failure | None:
    """Of the latest attempt with a failure: the earliest that is nobody's echo; of one second, slice before host."""
    found = tuple(_failures(evidence))
    latest = max((one.pod.attempt for one in found), default=0)
    return min((one for one in found if one.pod.attempt == latest), key=_rank, default=None)


def failed_in_place(container: Container) -> bool:
    """Whether it failed before, and its pod has started it again or will."""
    last = container.last
    return last is not None and last.state == "terminated" and last.exit_code != 0


def suspects(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods with a container that failed, the likeliest cause first: whose logs are worth reading."""
    found = (Failure(pod=pod, container=container) for pod in pods for container in _ended(pod))
    latest_first = sorted(found, key=lambda one: (-one.pod.attempt, *_rank(one)))
    return tuple(dict.fromkeys(one.pod for one in latest_first))


def place(pod: Pod | Log) -> str:
    name = pod.name if isinstance(pod, Pod) else pod.pod
    if not name:
        return "this machine"
    if pod.replicated_job == PATHWAYS_HEAD:
        return f"the head (pod {name})"
    return f"slice {pod.slice_index} host {pod.host} (pod {name})"


def _failures(evidence: Evidence) -> Iterator[Failure]:
    logs = {log.pod: log for log in evidence.logs or ()}
    for pod in evidence.seen.pods or ():
        for container in _ended(pod):
            yield Failure(pod=pod, container=container, log=logs.get(pod.name))


def _ended(pod: Pod) -> Iterator[Container]:
    """Containers that failed, also those that their pod has started anew since."""
    for container in pod.containers:
        for one in (container, container.last):
            if one is not None and one.state == "terminated" and one.exit_code != 0:
                yield one


def _rank(one: Failure) -> tuple[bool, bool, float, bool, bool, int, int, str]:
    """Smaller is likelier. Kubelets tell whole seconds, so within one a kill is taken for the echo.

    A container that the node killed for memory is no echo, and neither is one that the cluster had not begun to delete.
    """
    ended = moment(one.container.finished_at)
    killed = one.container.exit_code in KILLED and not one.oom
    return (
        one.said is not None and one.said.kind in PEER_LOST,
        ended is None,
        ended.timestamp() if ended else 0.0,
        one.pod.deleting,
        killed,
        one.pod.slice_index,
        one.pod.host,
        one.pod.name,
    )
