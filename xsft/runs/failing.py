"""Find the process that failed first, and ignore the failures that followed from it. Pure.

When one of 128 processes dies, the others lose their peer and die too; then the Job controller kills the rest. The
cause is in one log; the other 127 report a lost peer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from xsft.base.moments import moment
from xsft.cluster.evidence import Diagnosis, Evidence, Log
from xsft.cluster.observation import SERVER_JOB, Container, Pod

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
    last = container.last
    return last is not None and last.state == "terminated" and last.exit_code != 0


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
            if one is not None and one.state == "terminated" and one.exit_code != 0:
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
