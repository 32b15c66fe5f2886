"""What the rules of `why` look at where pods do not come up, or were taken away. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.states.evidence import Evidence
from xsft.states.failing import first_failure, place
from xsft.states.moments import seconds_between
from xsft.states.pods import current, unscheduled
from xsft.states.rule import Clue

_SCHEDULING = frozenset({"FailedScheduling", "FailedScaleUp", "NotTriggerScaleUp"})
_MAKING = frozenset({"Failed", "FailedMount", "FailedCreatePodSandBox", "InspectFailed"})
"""Reasons of events that say more of a pod that finds no node, and of a container that cannot be made."""


def unplaced(evidence: Evidence) -> Iterator[Clue]:
    """What the scheduler says of a pod that finds no node; only where one finds none now."""
    pods = [pod for pod in current(evidence.seen) if unscheduled(pod)]
    for pod in pods:
        for condition in pod.conditions:
            if condition.type == "PodScheduled":
                yield Clue(text=condition.message or condition.reason, where=place(pod))
    if pods:
        yield from (clue for clue in events(evidence) if clue.values["event"] in _SCHEDULING)


def waiting(evidence: Evidence) -> Iterator[Clue]:
    """`reason: message` of containers that wait, and of the events that say more."""
    pods = current(evidence.seen)
    for pod in pods:
        for container in pod.containers:
            if container.state == "waiting" and container.reason:
                yield Clue(
                    text=f"{container.reason}: {container.message}",
                    where=place(pod),
                    values={"image": _image(evidence)},
                )
    for clue in events(evidence):
        if clue.values["event"] in _MAKING:
            yield clue


def events(evidence: Evidence) -> Iterator[Clue]:
    """`reason: message`, the latest first."""
    for event in sorted(evidence.events or (), key=lambda one: one.at, reverse=True):
        values = {"event": event.reason, "image": _image(evidence)}
        yield Clue(text=f"{event.reason}: {event.message}", where=event.object, values=values)


def disrupted(evidence: Evidence) -> Iterator[Clue]:
    """`reason: message` of DisruptionTarget: the cluster, not the program, ended this pod. Not after a failure: nodes
    are also taken down when a run has ended.
    """
    failure = first_failure(evidence)
    failed_at = failure.container.finished_at if failure else None
    for pod in evidence.seen.pods or ():
        for condition in pod.conditions:
            later = (seconds_between(failed_at, condition.at) or 0) > 0
            if condition.type == "DisruptionTarget" and condition.status == "True" and not later:
                node = f" (node {pod.node})" if pod.node else ""
                yield Clue(text=f"{condition.reason}: {condition.message}", where=place(pod) + node)


def _image(evidence: Evidence) -> str:
    jobset = evidence.seen.jobset
    return jobset.image or "its image" if jobset else "its image"
