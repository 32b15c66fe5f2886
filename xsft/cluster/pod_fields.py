"""Parse pods of JobSets into the fields that a state depends on. Pure; nothing here raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from xsft.base.aliases import JsonObject
from xsft.base.lenient import count, mapping, rows, text, whole
from xsft.base.moments import seconds_between
from xsft.base.names import MODES, ModeName
from xsft.cluster.jobset_fields import conditions_of
from xsft.cluster.observation import SERVER_JOB, Condition, Container, Pod, RunObject
from xsft.records.jobset_paths import TRAINER_CONTAINER
from xsft.records.labels import COMPLETION_INDEX, JOBSET_NAME, RESTART_ATTEMPT, RUN_LABEL, WORK_LABEL
from xsft.spec.modes import mode_module
from xsft.spec.serving_inputs import CONTAINER, COPIER

REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
"""Labels that JobSet sets on each pod. source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go."""

ContainerState = Literal["waiting", "running", "terminated"]
_STATES: tuple[ContainerState, ...] = ("terminated", "running", "waiting")


def pod_of(json: JsonObject) -> Pod:
    metadata, status = mapping(json, "metadata"), mapping(json, "status")
    labels = mapping(metadata, "labels")
    index = labels.get(COMPLETION_INDEX, mapping(metadata, "annotations").get(COMPLETION_INDEX))
    server = labels.get(WORK_LABEL) == "serve"
    containers = (*rows(status.get("initContainerStatuses")), *rows(status.get("containerStatuses")))
    limits = _memory_limits(mapping(json, "spec"))
    conditions = conditions_of(status)
    return Pod(
        name=text(metadata.get("name")) or "",
        jobset=text(labels.get(RUN_LABEL if server else JOBSET_NAME)) or "",
        replicated_job=SERVER_JOB if server else text(labels.get(REPLICATED_JOB)) or "",
        slice_index=count(labels.get(JOB_INDEX)),
        host=count(index),
        phase=text(status.get("phase")) or "Unknown",
        conditions=conditions,
        containers=tuple(replace(one, memory=limits.get(one.name, "")) for one in map(_container, containers)),
        node=text(mapping(json, "spec").get("nodeName")),
        attempt=count(labels.get(RESTART_ATTEMPT)),
        deleting=text(metadata.get("deletionTimestamp")) is not None,
        created_at=text(metadata.get("creationTimestamp")) or "",
        behind_s=_clock_behind_s(conditions, acknowledged_at=text(status.get("startTime"))),
    )


def _clock_behind_s(conditions: tuple[Condition, ...], *, acknowledged_at: str | None) -> float:
    """Return the seconds by which the node's clock is at least behind the API server's: the kubelet acknowledges a pod
    after the API server has bound it. source: kubernetes@v1.35 pkg/kubelet/kubelet_pods.go generateAPIPodStatus,
    pkg/registry/core/pod/storage/storage.go setPodHostAndAnnotations.
    """
    bound_at = next((c.at for c in conditions if c.type == "PodScheduled" and c.status == "True"), None)
    return max(0.0, seconds_between(acknowledged_at, bound_at) or 0.0)


def _memory_limits(spec: JsonObject) -> dict[str, str]:
    """Return the memory limit of each container that has one, by name."""
    found = (
        (text(row.get("name")), mapping(mapping(row, "resources"), "limits")) for row in rows(spec.get("containers"))
    )
    return {name: limit for name, limits in found if name and (limit := text(limits.get("memory")))}


def _container(row: JsonObject) -> Container:
    last = mapping(row, "lastState")
    now = _in_state(row, mapping(row, "state"))
    return replace(now, last=_in_state(row, last)) if "terminated" in last else now


def _in_state(row: JsonObject, state: JsonObject) -> Container:
    name: ContainerState | None = next((name for name in _STATES if isinstance(state.get(name), dict)), None)
    details = mapping(state, name) if name else {}
    return Container(
        name=text(row.get("name")) or "",
        state=name or "unknown",
        reason=text(details.get("reason")) or "",
        message=text(details.get("message")) or "",
        exit_code=whole(details.get("exitCode")),
        restarts=count(row.get("restartCount")),
        started_at=text(details.get("startedAt")),
        finished_at=text(details.get("finishedAt")),
    )


def selector_of(jobset: RunObject) -> str:
    """Return the label selector of all pods of one run's object."""
    return f"{WORK_LABEL}=serve,{RUN_LABEL}={jobset.run_name}" if jobset.serves else pods_selector([jobset.name])


def pods_selector(jobsets: Iterable[str]) -> str:
    """Return the label selector of all pods of these JobSets, by exact name."""
    return f"{JOBSET_NAME} in ({','.join(sorted(jobsets))})"


def first_hosts_selector(jobsets: Iterable[str]) -> str:
    """Return the label selector of the first pod of each of their Jobs. `prints_steps` finds one per JobSet among them,
    and a first pod shows why its Job does not start (`FIRST_HOSTS`).
    """
    return f"{pods_selector(jobsets)},{COMPLETION_INDEX}=0"


def trainer_job(jobset: RunObject) -> str | None:
    """Return the replicated job whose first pod prints the steps; the first one of a JobSet of unknown origin."""
    if mode := _known_mode(jobset):
        return mode_module(mode).TRAINER_JOB
    return jobset.jobs[0].name if jobset.jobs else None


def slice_job(jobset: RunObject) -> str | None:
    """Return the replicated job of the slices; the trainer's for a JobSet of unknown origin."""
    mode = _known_mode(jobset)
    return mode_module(mode).REPLICATED_JOB if mode else trainer_job(jobset)


def _known_mode(jobset: RunObject) -> ModeName | None:
    return next((mode for mode in MODES if mode == jobset.mode), None)


def prints_steps(pod: Pod, jobset: RunObject) -> bool:
    """Return whether the pod is host 0 of slice 0, or the Pathways head: every McJAX host prints steps, and this one is
    also the coordinator.
    """
    return (pod.jobset, pod.replicated_job, pod.slice_index, pod.host) == (jobset.name, trainer_job(jobset), 0, 0)


def trainer_container(pod: Pod) -> str | None:
    """Return the container whose output is the trainer's; of a server the one that copies the weights until it has
    ended. None if the pod has only one.
    """
    if pod.replicated_job == SERVER_JOB:
        copies = any(c.name == COPIER and c.state != "terminated" for c in pod.containers)
        return COPIER if copies else CONTAINER
    named = [c.name for c in pod.containers if c.name.startswith(TRAINER_CONTAINER)]
    return named[0] if named else None
