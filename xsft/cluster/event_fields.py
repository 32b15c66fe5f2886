"""Kubernetes events, and the objects that a JobSet refers to. Pure; nothing here raises."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.aliases import JsonObject
from xsft.base.lenient import mapping, rows, text, whole
from xsft.cluster.evidence import Event
from xsft.cluster.jobset_fields import QUEUE_LABEL
from xsft.cluster.observation import RunObject


def event_of(json: JsonObject) -> Event:
    """Parse an event. source: k8s.io/api core/v1 Event; `series` and `eventTime` replaced `count` and `lastTimestamp`
    in new ones.
    """
    about, series = mapping(json, "involvedObject"), mapping(json, "series")
    at = series.get("lastObservedTime") or json.get("lastTimestamp") or json.get("eventTime")
    created = mapping(json, "metadata").get("creationTimestamp")
    return Event(
        reason=text(json.get("reason")) or "",
        message=" ".join((text(json.get("message")) or "").split()),
        object=f"{text(about.get('kind')) or ''}/{text(about.get('name')) or ''}",
        count=whole(series.get("count")) or whole(json.get("count")) or 1,
        at=text(at) or text(created) or "",
    )


def is_about(event: Event, jobset: RunObject, *, workload: str | None) -> bool:
    """Return whether the event is about the JobSet, its Jobs, its pods or its Workload; names of other runs may share a
    prefix.
    """
    kind, _, name = event.object.partition("/")
    if jobset.serves:
        return _of_server(kind, name, jobset)
    if kind == "JobSet":
        return name == jobset.name
    if kind == "Workload":
        return name == workload
    jobs = {f"{jobset.name}-{job.name}-{i}" for job in jobset.jobs for i in range(min(job.replicas, 10_000))}
    if kind == "Job":
        return name in jobs
    return kind == "Pod" and name.rsplit("-", 2)[0] in jobs  # Job, completion index, five letters


def _of_server(kind: str, name: str, server: RunObject) -> bool:
    """Return whether it is the Deployment, its ReplicaSet or a pod of it: `<name>-<hash>` and `<name>-<hash>-abcde`."""
    match kind:
        case "Deployment":
            return name == server.name
        case "ReplicaSet" | "Pod":
            return name.rsplit("-", 1 if kind == "ReplicaSet" else 2)[0] == server.name
        case _:
            return False


def named_objects(jobset: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return (kind, name) of each PriorityClass, Secret and LocalQueue that its pods and queue label refer to."""
    return tuple(dict.fromkeys(pair for pair in _named_objects(jobset) if pair[1]))


def _named_objects(jobset: JsonObject) -> Iterator[tuple[str, str]]:
    yield "LocalQueue", text(mapping(jobset, "metadata", "labels").get(QUEUE_LABEL)) or ""
    for job in rows(mapping(jobset, "spec").get("replicatedJobs")):
        pod = mapping(job, "template", "spec", "template", "spec")
        yield "PriorityClass", text(pod.get("priorityClassName")) or ""
        for secret in _required_secrets(pod):
            yield "Secret", secret


def _required_secrets(pod: JsonObject) -> Iterator[str]:
    """Yield the Secrets that must exist; optional ones may be missing."""
    for volume in rows(pod.get("volumes")):
        yield from _required(mapping(volume, "secret"), "secretName")
    for pull in rows(pod.get("imagePullSecrets")):
        yield text(pull.get("name")) or ""
    for container in (*rows(pod.get("initContainers")), *rows(pod.get("containers"))):
        for variable in rows(container.get("env")):
            yield from _required(mapping(variable, "valueFrom", "secretKeyRef"), "name")


def _required(reference: JsonObject, key: str) -> Iterator[str]:
    if reference.get("optional") is not True:
        yield text(reference.get(key)) or ""
