"""Clues for the rules of `why`: pods that do not start or were removed, and a server's. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.states.evidence import Evidence
from xsft.states.failing import first_failure, place
from xsft.states.moments import seconds_between
from xsft.states.pods import current, unscheduled
from xsft.states.rule import Clue
from xsft.states.serving import server_state

_SCHEDULING = frozenset({"FailedScheduling", "FailedScaleUp", "NotTriggerScaleUp"})
_MAKING = frozenset({"Failed", "FailedMount", "FailedCreatePodSandBox", "InspectFailed"})
"""Reasons of events about a pod that fits on no node, and about a container that could not be created."""


LAST_LINES = 5


def unplaced(evidence: Evidence) -> Iterator[Clue]:
    """Yield the scheduler's message about a pod that fits on no node; only if there is such a pod now."""
    pods = [pod for pod in current(evidence.seen) if unscheduled(pod)]
    for pod in pods:
        for condition in pod.conditions:
            if condition.type == "PodScheduled":
                yield Clue(text=condition.message or condition.reason, where=place(pod))
    if pods:
        yield from (clue for clue in events(evidence) if clue.values["event"] in _SCHEDULING)


def waiting(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of waiting containers and of related events."""
    pods = current(evidence.seen)
    for pod in pods:
        for container in pod.containers:
            if container.state == "waiting" and container.reason:
                yield Clue(
                    text=f"{container.reason}: {container.message}",
                    where=place(pod),
                    values={"image": _image_name(evidence)},
                )
    for clue in events(evidence):
        if clue.values["event"] in _MAKING:
            yield clue


def events(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of events, the latest first."""
    for event in sorted(evidence.events or (), key=lambda one: one.at, reverse=True):
        values = {"event": event.reason, "image": _image_name(evidence)}
        yield Clue(text=f"{event.reason}: {event.message}", where=event.object, values=values)


def disrupted(evidence: Evidence) -> Iterator[Clue]:
    """Yield `reason: message` of DisruptionTarget: the cluster, not the program, ended this pod. Empty after a
    failure, because nodes are also removed when a run has ended."""
    failure = first_failure(evidence)
    failed_at = failure.container.finished_at if failure else None
    for pod in evidence.seen.pods or ():
        for condition in pod.conditions:
            later = (seconds_between(failed_at, condition.at) or 0) > 0
            if condition.type == "DisruptionTarget" and condition.status == "True" and not later:
                node = f" (node {pod.node})" if pod.node else ""
                yield Clue(text=f"{condition.reason}: {condition.message}", where=place(pod) + node)


def _image_name(evidence: Evidence) -> str:
    jobset = evidence.seen.jobset
    return jobset.image or "its image" if jobset else "its image"


def server(evidence: Evidence) -> Iterator[Clue]:
    """Yield `state reason` of a server, with its pod and the last log lines of a container that ended."""
    held, seen = evidence.seen.jobset, evidence.seen
    if held is None or not held.serves:
        return
    failure, pod = first_failure(evidence), next((one for one in seen.pods or () if not one.deleting), None)
    lines = failure.log.lines[-LAST_LINES:] if failure and failure.log else ()
    yield Clue(
        text=f"{evidence.status.state} {evidence.status.reason}",
        where=place(pod) if pod else "",
        quoted=lines or tuple(one.message for one in (evidence.events or ())[-1:]),
        values={"why": server_state(held, seen.pods).why, "image": held.image or "its image"},
    )
