"""Parse JobSets, any and not only xsft's, and Deployments of servers into the fields that a state depends on. Pure.

Nothing here raises: a field that is missing or of another type counts as unknown. source: jobset@v0.10.1
api/jobset/v1alpha2/jobset_types.go; xpk@1.16.0 as rendered (tests/golden/*.manifest.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from xsft.base.aliases import JsonObject
from xsft.base.lenient import count, mapping, rows, text, texts, whole
from xsft.base.names import MODES, ModeName, attempt_number
from xsft.base.targets import launcher_named
from xsft.catalog.tpu import Slice, slice_of
from xsft.cluster.observation import SERVER_JOB, Condition, ReplicatedJob, RunObject
from xsft.records.jobset_paths import TRAINER_CONTAINER
from xsft.records.labels import (
    DATA_ANNOTATION,
    DIGEST_ANNOTATION,
    MODE_LABEL,
    OUTPUT_ANNOTATION,
    RUN_LABEL,
    STEPS_ANNOTATION,
    TARGET_LABEL,
    WORK_LABEL,
)
from xsft.spec.modes import mode_module

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
XPK_LABEL = "xpk.google.com/workload"
"""Label by which xpk lists its workloads (xpk@1.16.0 commands/workload.py)."""
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
MANAGER_LABEL = "app.kubernetes.io/managed-by"

_ARGUMENT = r"(?<![\w.$-]){}=([^\s'\";&|)]*)"
_STEPS = re.compile(_ARGUMENT.format("steps"))
_OUTPUT = re.compile(_ARGUMENT.format("base_output_directory"))


def jobset_of(json: JsonObject) -> RunObject:
    spec, status = mapping(json, "spec"), mapping(json, "status")
    labels, annotations = mapping(json, "metadata", "labels"), mapping(json, "metadata", "annotations")
    found, jobs = _object_of(json), rows(spec.get("replicatedJobs"))
    mode, work = _mode(labels, jobs), text(labels.get(WORK_LABEL))
    slices, trainer = _find_slice_job(jobs, mode), _trainer(jobs, mode)
    command = " ".join((*texts(trainer.get("command")), *texts(trainer.get("args"))))
    return replace(
        found,
        mode=mode,
        tpu=tpu_of(_pod_spec(slices)),
        num_slices=whole(slices.get("replicas")) if slices else None,
        # the command first: it cannot change, while anyone may edit the annotation
        steps=(None if work else whole(_literal(_STEPS, command))) or whole(annotations.get(STEPS_ANNOTATION)),
        output=found.output or _literal(_OUTPUT, command),
        queue=text(labels.get(QUEUE_LABEL)),
        image=text(trainer.get("image")),
        suspended=spec.get("suspend") is True,
        terminal=text(status.get("terminalState")) or _terminal(found.conditions),
        jobs=_replicated(jobs, status),
        restarts=count(status.get("restarts")),
        max_restarts=whole(mapping(spec, "failurePolicy").get("maxRestarts")),
        work=work,
        data_on_restart=text(annotations.get(DATA_ANNOTATION)),
    )


def server_of(json: JsonObject) -> RunObject:
    """Return the Deployment. Its one job is ready if the pod is: if /health answers."""
    pod = mapping(json, "spec", "template", "spec")
    tpu = tpu_of(pod)
    return replace(
        _object_of(json),
        kind="Deployment",
        tpu=tpu,
        num_slices=1 if tpu else None,
        image=next((text(one.get("image")) for one in rows(pod.get("containers"))), None),
        jobs=(ReplicatedJob(name=SERVER_JOB, replicas=1, ready=count(mapping(json, "status").get("readyReplicas"))),),
        work="serve",
    )


def _object_of(json: JsonObject) -> RunObject:
    """Return the fields that JobSets and Deployments have in the same place."""
    metadata, status = mapping(json, "metadata"), mapping(json, "status")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    name = text(metadata.get("name")) or ""
    run_name = _run_name(text(labels.get(RUN_LABEL)), name=name)
    return RunObject(
        name=name,
        namespace=text(metadata.get("namespace")) or "",
        uid=text(metadata.get("uid")) or "",
        created_at=text(metadata.get("creationTimestamp")) or "",
        run_name=run_name or name,
        target=launcher_named(text(labels.get(TARGET_LABEL))),
        ours=run_name is not None and labels.get(MANAGER_LABEL) == "xsft",
        output=text(annotations.get(OUTPUT_ANNOTATION)),
        spec_digest=text(annotations.get(DIGEST_ANNOTATION)),
        conditions=conditions_of(status),
        has_status=bool(status),
        deleting_at=text(metadata.get("deletionTimestamp")),
    )


def _run_name(label: str | None, *, name: str) -> str | None:
    """Return the run in the label if the name can be an attempt of it; a label may have been copied
    (`naming.attempt_name`).
    """
    return label if label is not None and attempt_number(name, first=label) else None


def run_of(json: JsonObject) -> RunObject | None:
    """Return the run's JobSet, or None if it is not a run."""
    return jobset_of(json) if trains(json) else None


def trains(json: JsonObject) -> bool:
    """Return whether it is a run: xsft's or xpk's, or one that requests TPUs; a cluster may have other JobSets."""
    labels = mapping(json, "metadata", "labels")
    jobs = rows(mapping(json, "spec").get("replicatedJobs"))
    return RUN_LABEL in labels or XPK_LABEL in labels or any(ACCELERATOR in _selector(job) for job in jobs)


def conditions_of(status: JsonObject) -> tuple[Condition, ...]:
    return tuple(_condition(row) for row in rows(status.get("conditions")))


def _terminal(conditions: tuple[Condition, ...]) -> str | None:
    """Return the terminal state; JobSet before 0.6 writes only the condition."""
    return next((c.type for c in conditions if c.type in ("Failed", "Completed") and c.status == "True"), None)


def _condition(row: JsonObject) -> Condition:
    return Condition(
        type=text(row.get("type")) or "",
        status=text(row.get("status")) or "Unknown",
        reason=text(row.get("reason")) or "",
        message=text(row.get("message")) or "",
        at=text(row.get("lastTransitionTime")) or "",
    )


def _mode(labels: JsonObject, jobs: tuple[JsonObject, ...]) -> ModeName | None:
    labelled = next((mode for mode in MODES if labels.get(MODE_LABEL) == mode), None)
    names = {text(job.get("name")) for job in jobs}
    return labelled or next(
        (m for m in MODES if {mode_module(m).REPLICATED_JOB, mode_module(m).TRAINER_JOB} <= names), None
    )


def _find_slice_job(jobs: tuple[JsonObject, ...], mode: ModeName | None) -> JsonObject:
    """Return the replicated job of the slices: by its name, else the first that requests TPUs."""
    name = mode_module(mode).REPLICATED_JOB if mode else None
    found = (job for job in jobs if (job.get("name") == name if name else ACCELERATOR in _selector(job)))
    return next(found, {})


def _trainer(jobs: tuple[JsonObject, ...], mode: ModeName | None) -> JsonObject:
    """Return the container that trains: by xpk's name, else the first container of the first job."""
    name = mode_module(mode).TRAINER_JOB if mode else None
    job = next((job for job in jobs if job.get("name") == name), jobs[0] if jobs else {})
    containers = rows(_pod_spec(job).get("containers"))
    named = (c for c in containers if str(c.get("name", "")).startswith(TRAINER_CONTAINER))
    return next(named, containers[0] if containers else {})


def _pod_spec(job: JsonObject) -> JsonObject:
    return mapping(job, "template", "spec", "template", "spec")


def _selector(job: JsonObject) -> JsonObject:
    return mapping(_pod_spec(job), "nodeSelector")


def tpu_of(pod: JsonObject) -> str | None:
    found = shape_of(mapping(pod, "nodeSelector"))
    return found.tpu_type if found else None


def shape_of(labels: Mapping[str, Any]) -> Slice | None:
    """Return the slice that a node, or a node selector, has in its labels; None if it has none or an unknown one."""
    accelerator, topology = text(labels.get(ACCELERATOR)), text(labels.get(TOPOLOGY))
    return slice_of(accelerator, topology) if accelerator and topology else None


def _literal(pattern: re.Pattern[str], command: str) -> str | None:
    """Return an argument's value if the command sets it once and without a variable."""
    values = set(pattern.findall(command))
    value = values.pop() if len(values) == 1 else ""
    return value if value and "$" not in value and "`" not in value else None


def _replicated(jobs: tuple[JsonObject, ...], status: JsonObject) -> tuple[ReplicatedJob, ...]:
    """Return the replicated jobs in the spec's order; the status lists them in any."""
    counts = {text(row.get("name")): row for row in rows(status.get("replicatedJobsStatus"))}
    return tuple(_replicated_job(job, counts.get(text(job.get("name")), {})) for job in jobs)


def _replicated_job(job: JsonObject, counts: JsonObject) -> ReplicatedJob:
    replicas = whole(job.get("replicas"))
    return ReplicatedJob(
        name=text(job.get("name")) or "",
        replicas=1 if replicas is None else replicas,
        ready=count(counts.get("ready")),
        active=count(counts.get("active")),
        succeeded=count(counts.get("succeeded")),
        failed=count(counts.get("failed")),
        suspended=count(counts.get("suspended")),
    )
