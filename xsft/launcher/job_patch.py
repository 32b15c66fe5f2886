"""The JobSets of jobs, on a CPU node and on slices: the changes to xpk's manifest, and the expected content of the
final one. Pure.

Unchanged from xpk on a CPU node: `hostNetwork`, so that the pod uses the node's account for the bucket, as the trainer
does; and the affinity that excludes the nodes of the cluster's own services. source: `xpk workload create
--device-type=n2-standard-64-1`, xpk@1.16.0, as tests/golden/*.convert.yaml show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain

from xsft.base.pointers import JsonValue, NamedEntry, Pointer
from xsft.catalog.machines import GIB, cpu_types
from xsft.launcher.audit import (
    Expectation,
    process_expectations,
    pull_secret_expectations,
    setting_expectations,
    slice_expectations,
)
from xsft.launcher.cpujob import SCRATCH, CpuJob
from xsft.launcher.launcher import Job
from xsft.launcher.patch import (
    NODE_TERMS,
    Change,
    capacity_changes,
    identity_changes,
    identity_labels,
    pull_secret_changes,
    setting_changes,
)
from xsft.launcher.pod_settings import PodSetting, protection, shared_settings
from xsft.launcher.slicejob import SliceJob
from xsft.records.jobset_paths import (
    DIGEST_ANNOTATION,
    FAIL_JOBSET_RULE,
    FOR_ANNOTATION,
    INSTANCE_TYPE,
    OUTPUT_ANNOTATION,
    RUN_LABEL,
    TPU_NODE,
    WORK_LABEL,
    WRITES_ANNOTATION,
    JobSetPaths,
    places,
    pod_failure_policy,
)

SCRATCH_VOLUME = "xsft-scratch"
NODE_DISK = 20 * GIB
"""Bytes that every node can spare: GKE's boot disks have 100 GiB, of which pods get half, and images are stored there
too. source: docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes, "Local ephemeral storage
reservation"."""
GROUP = 1000
"""Group that owns a volume with a disk of its own, so that any user of an image can write to it."""

EXCLUSIVE: Pointer = ("metadata", "annotations", "alpha.jobset.sigs.k8s.io/exclusive-topology")
NOT_DEFAULT_POOL = {"key": "cloud.google.com/gke-nodepool", "operator": "NotIn", "values": ["default-pool"]}
"""Node selector term that xpk sets; source: xpk@1.16.0 core/scheduling.py get_cpu_affinity."""
FAIL_RULE = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"]}
"""JobSet's rule: a second failure, or an exceeded time limit, is not restarted. source: k8s.io/api batch/v1
JobReasonDeadlineExceeded; jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go onJobFailureReasons."""
DEADLINE: Pointer = ("activeDeadlineSeconds",)
RULES: Pointer = ("spec", "failurePolicy", "rules")


def cpu_changes(job: CpuJob) -> tuple[Change, ...]:
    """Return the changes to the manifest for what xpk cannot express."""
    paths = places(job.run.mode.value)
    nodes: Iterable[Change] = _node_changes(job, paths)
    if job.on_tpu:  # it takes the slice whole: Kueue counts all its chips, and no memory
        nodes = chain(_scratch(job, paths), capacity_changes(job.run, paths))
    return (
        *_job_identity(job, paths),
        *nodes,
        *setting_changes(_job_settings(job, paths)),
        *pull_secret_changes(job.run, paths),
    )


def cpu_expectations(job: CpuJob) -> Iterator[Expectation]:
    """Yield what the job's manifest must hold."""
    paths = places(job.run.mode.value)
    yield from _expected_identity(job, paths)
    yield from process_expectations(job.run, paths, argv=job.process, command=job.command, env=job.env)
    volume = (*paths.trainer_pod, "volumes", NamedEntry(SCRATCH_VOLUME))
    mount = (*paths.trainer, "volumeMounts", NamedEntry(SCRATCH_VOLUME), "mountPath")
    yield Expectation(field="disk", path=volume, value=_volume(job))
    yield Expectation(field="disk", path=mount, value=SCRATCH)
    yield from (slice_expectations(job.run, paths) if job.on_tpu else _expected_node(job, paths))
    yield from _expected_policies(job, paths)
    yield from setting_expectations(_job_settings(job, paths))
    yield from pull_secret_expectations(job.run, paths)


def slice_changes(job: SliceJob) -> tuple[Change, ...]:
    """Return the changes to the manifest for what xpk cannot express."""
    run = job.run
    paths = places(run.mode.value)
    limit = "xpk has no time limit for a workload"
    return (
        *_job_identity(job, paths),
        *setting_changes(shared_settings(run, paths)),
        *pull_secret_changes(run, paths),
        *capacity_changes(run, paths),
        Change(path=(*paths.trainer_job, *DEADLINE), value=job.limit_s, why=limit),
        Change(path=RULES, value=[FAIL_RULE], why=limit),
    )


def slice_job_expectations(job: SliceJob) -> Iterator[Expectation]:
    """Yield what the job's manifest must hold."""
    paths = places(job.run.mode.value)
    spec = job.run.spec
    yield from _expected_identity(job, paths)
    yield from process_expectations(job.run, paths, argv=job.argv, command=job.command, env=job.env)
    yield from slice_expectations(job.run, paths)
    # It starts again from its beginning after a preemption.
    yield Expectation(field="restarts.max", path=("spec", "failurePolicy", "maxRestarts"), value=spec.restarts.max)
    yield Expectation(field="restarts.on_exit_codes", path=RULES, value=[FAIL_RULE])
    failure = pod_failure_policy(spec.restarts.on_exit_codes)
    yield Expectation(field="restarts.on_exit_codes", path=(*paths.trainer_job, "podFailurePolicy"), value=failure)
    yield Expectation(field="stages.evaluate.limit_s", path=(*paths.trainer_job, *DEADLINE), value=job.limit_s)
    ttl: Pointer = ("spec", "ttlSecondsAfterFinished")
    yield Expectation(field="ttl_seconds_after_finished", path=ttl, value=spec.ttl_seconds_after_finished)
    yield Expectation(field="priority", path=(*paths.trainer_pod, "priorityClassName"), value=spec.priority)
    yield from setting_expectations(shared_settings(job.run, paths))
    yield from pull_secret_expectations(job.run, paths)


def _job_settings(job: CpuJob, paths: JobSetPaths) -> Iterator[PodSetting]:
    yield from shared_settings(job.run, paths)
    if not job.on_tpu:
        yield protection(paths)


def _job_labels(job: Job) -> dict[str, str]:
    return {**identity_labels(job.run), WORK_LABEL: job.work}


def _annotations(job: Job) -> dict[str, str]:
    return {
        DIGEST_ANNOTATION: job.digest,
        OUTPUT_ANNOTATION: job.run.output or "",
        FOR_ANNOTATION: job.training,
        WRITES_ANNOTATION: job.writes,
    }


def _job_identity(job: Job, paths: JobSetPaths) -> Iterator[Change]:
    """Return the changes that identify a run that does not train."""
    return identity_changes(job.run, paths, labels=_job_labels(job), annotations=_annotations(job), whose="job")


def _node_changes(job: CpuJob, paths: JobSetPaths) -> Iterator[Change]:
    alone = "xpk reserves a whole node pool for a CPU job, so no second one and no Pathways head could start"
    yield Change(path=EXCLUSIVE, action="remove", why=alone)
    asks = "xpk limits the CPUs to those of the machine type and requests no memory"
    resources = (*paths.trainer, "resources")
    yield Change(path=(*resources, "requests"), value=_cpu_job_requests(job), why=asks)
    yield Change(path=(*resources, "limits"), value={"memory": job.memory_quantity}, why=asks)
    yield Change(path=(*paths.trainer_pod, *NODE_TERMS), value=_node_terms(job), why="xpk accepts nodes of any size")
    yield from _scratch(job, paths)
    if job.disk > NODE_DISK:
        disk = "a disk of its own belongs to root, and an image's user may be another"
        yield Change(path=(*paths.trainer_pod, "securityContext", "fsGroup"), value=GROUP, why=disk)


def _scratch(job: CpuJob, paths: JobSetPaths) -> Iterator[Change]:
    yield Change(
        path=(*paths.trainer, "securityContext"),
        action="remove",
        why="xpk makes it privileged, which only TPU containers need",
    )
    disk = "xpk has no volume for downloads, and no queue has quota for ephemeral-storage"
    mount = {"name": SCRATCH_VOLUME, "mountPath": SCRATCH}
    yield Change(path=(*paths.trainer_pod, "volumes", NamedEntry(SCRATCH_VOLUME)), value=_volume(job), why=disk)
    yield Change(path=(*paths.trainer, "volumeMounts", NamedEntry(SCRATCH_VOLUME)), value=mount, why=disk)


def _cpu_job_requests(job: CpuJob) -> dict[str, JsonValue]:
    return {"cpu": job.cpus, "memory": job.memory_quantity}


def _node_terms(job: CpuJob) -> list[JsonValue]:
    """Return node selector terms that exclude TPU hosts and nodes that are too small. The scheduler counts memory too;
    auto-provisioning reads these terms."""
    terms: list[JsonValue] = [NOT_DEFAULT_POOL, {"key": TPU_NODE, "operator": "DoesNotExist"}]
    small = [machine_type.machine for machine_type in cpu_types() if machine_type.memory_gib < job.machine.memory_gib]
    if small:
        terms.append({"key": INSTANCE_TYPE, "operator": "NotIn", "values": small})
    return [{"matchExpressions": terms}]


def _volume(job: CpuJob) -> JsonValue:
    """Return a volume: a folder of the node, or a disk that lives as long as the pod. Kueue counts neither as a
    request. On a slice it is the memory of the host instead of a disk for each of its hosts."""
    if job.disk <= NODE_DISK:
        return {"name": SCRATCH_VOLUME, "emptyDir": {}}
    if job.on_tpu:
        return {"name": SCRATCH_VOLUME, "emptyDir": {"medium": "Memory"}}
    size = {"requests": {"storage": f"{math.ceil(job.disk / GIB)}Gi"}}
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": size}}
    return {"name": SCRATCH_VOLUME, "ephemeral": {"volumeClaimTemplate": claim}}


def _expected_identity(job: Job, paths: JobSetPaths) -> Iterator[Expectation]:
    """Yield what identifies a run that does not train."""
    labels: Pointer = ("metadata", "labels")
    run = job.run
    pod = (*paths.trainer_pod[:-1], "metadata", "labels")
    yield Expectation(field="name", path=("metadata", "name"), value=run.jobset)
    for key, value in (_job_labels(job) | {"xpk.google.com/workload": run.jobset}).items():
        yield Expectation(field="name", path=(*labels, key), value=value)
    yield Expectation(field="name", path=(*pod, RUN_LABEL), value=run.run_name)
    yield Expectation(field="place.namespace", path=("metadata", "namespace"), value=run.namespace)
    yield Expectation(field="queue", path=(*labels, "kueue.x-k8s.io/queue-name"), value=run.queue)
    for key, value in _annotations(job).items():
        yield Expectation(field="name", path=("metadata", "annotations", key), value=value)


def _expected_node(job: CpuJob, paths: JobSetPaths) -> Iterator[Expectation]:
    resources = (*paths.trainer, "resources")
    yield Expectation(field="replicas", path=(*paths.slices, "replicas"), value=1)
    yield Expectation(field="replicas", path=(*paths.trainer_job, "parallelism"), value=1)
    yield Expectation(field="memory", path=(*resources, "requests"), value=_cpu_job_requests(job))
    yield Expectation(field="memory", path=(*resources, "limits"), value={"memory": job.memory_quantity})
    yield Expectation(field="nodes", path=(*paths.trainer_pod, *NODE_TERMS), value=_node_terms(job))


def _expected_policies(job: CpuJob, paths: JobSetPaths) -> Iterator[Expectation]:
    """Yield the policies of a job that is never restarted in place: files of an earlier start would conflict, so the
    next call begins a new attempt."""
    spec = job.run.spec
    yield Expectation(field="restarts", path=("spec", "failurePolicy", "maxRestarts"), value=0)
    yield Expectation(field="restarts", path=("spec", "failurePolicy", "rules"), value=[FAIL_JOBSET_RULE])
    yield Expectation(field="restarts", path=(*paths.trainer_job, "podFailurePolicy"), value=pod_failure_policy([]))
    ttl: Pointer = ("spec", "ttlSecondsAfterFinished")
    yield Expectation(field="ttl_seconds_after_finished", path=ttl, value=spec.ttl_seconds_after_finished)
    yield Expectation(field="priority", path=(*paths.trainer_pod, "priorityClassName"), value=spec.priority)
