"""JobSets, any and not only xsft's, and Deployments of servers: what a state depends on. Pure.

source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go; xpk@1.16.0 as rendered (tests/golden/*.manifest.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.json import Decoder
from msgspec.structs import replace

from xsft.base.lenient import JsonObject, whole
from xsft.base.names import MODES, ModeName, attempt_number
from xsft.base.targets import launcher_named
from xsft.catalog.tpu import Slice, slice_of
from xsft.cluster.objects import (
    Condition,
    ConditionsStatus,
    ContainerSpec,
    JobSpec,
    KubernetesObject,
    KubernetesStruct,
    ObjectMetadata,
    PodSpec,
    typed,
)
from xsft.cluster.observation import ReplicatedJob, RunObject
from xsft.cluster.pod_fields import SERVER_JOB
from xsft.records.jobset_paths import (
    DATA_ANNOTATION,
    DIGEST_ANNOTATION,
    MODE_LABEL,
    OUTPUT_ANNOTATION,
    RUN_LABEL,
    STEPS_ANNOTATION,
    TARGET_LABEL,
    TRAINER_CONTAINER,
    WORK_LABEL,
    WRITES_ANNOTATION,
)
from xsft.spec.modes import mode_rules

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
XPK_LABEL = "xpk.google.com/workload"
"""Label by which xpk lists its workloads (xpk@1.16.0 commands/workload.py)."""
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
MANAGER_LABEL = "app.kubernetes.io/managed-by"

_ARGUMENT = r"{0}=(?<![\w.$-]{0}=)([^\s'\";&|)]*)"  # begins with the name: 30 times faster than with what precedes it
_STEPS = re.compile(_ARGUMENT.format("steps"))
_OUTPUT = re.compile(_ARGUMENT.format("base_output_directory"))


class JobTemplate(KubernetesStruct, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()


class ReplicatedJobSpec(KubernetesStruct, frozen=True, kw_only=True):
    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()

    @property
    def pod(self) -> PodSpec:
        return self.template.spec.template.spec


class FailurePolicy(KubernetesStruct, frozen=True, kw_only=True):
    max_restarts: int | None = None


class JobSetSpec(KubernetesStruct, frozen=True, kw_only=True):
    replicated_jobs: tuple[ReplicatedJobSpec, ...] = ()
    suspend: bool = False
    failure_policy: FailurePolicy = FailurePolicy()


class JobSetStatus(ConditionsStatus, frozen=True, kw_only=True):
    terminal_state: str | None = None
    restarts: int = 0
    replicated_jobs_status: tuple[ReplicatedJob, ...] = ()

    @property
    def terminal(self) -> str | None:
        """Return the terminal state; JobSet before 0.6 writes only the condition."""
        ends = (c.type for c in self.conditions if c.type in ("Failed", "Completed") and c.status == "True")
        return self.terminal_state or next(ends, None)


class JobSet(KubernetesObject, frozen=True, kw_only=True):
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()

    @property
    def trains(self) -> bool:
        """Return whether it is a run: xsft's or xpk's, or one that requests TPUs; a cluster may have other JobSets."""
        if RUN_LABEL in self.metadata.labels or XPK_LABEL in self.metadata.labels:
            return True
        return any(ACCELERATOR in job.pod.node_selector for job in self.spec.replicated_jobs)

    @property
    def labelled_run(self) -> str | None:
        """Return the run of its label; None: xsft did not create it."""
        return self.metadata.labels.get(RUN_LABEL)

    @property
    def spec_digest(self) -> str | None:
        return self.metadata.annotations.get(DIGEST_ANNOTATION)

    @property
    def attempt(self) -> int:
        """Return the attempt's number: `run` is 1, `run-3` is 3; a JobSet of another name counts as the first."""
        return attempt_number(self.name, first=self.labelled_run or self.name) or 1

    @property
    def live(self) -> bool:
        return self.status.terminal not in ("Completed", "Failed")


class DeploymentStatus(ConditionsStatus, frozen=True, kw_only=True):
    ready_replicas: int = 0


class Deployment(KubernetesStruct, frozen=True, kw_only=True):
    metadata: ObjectMetadata
    spec: JobSpec = JobSpec()
    status: DeploymentStatus = DeploymentStatus()


JOBSET = Decoder(JobSet)
DEPLOYMENT = Decoder(Deployment)


def jobset_of(jobset: JobSet) -> RunObject:
    labels, annotations = jobset.metadata.labels, jobset.metadata.annotations
    jobs = jobset.spec.replicated_jobs
    mode = _mode(labels, jobs)
    slices = _find_slice_job(jobs, mode)
    trainer = _trainer(jobs, mode)
    command = " ".join((*trainer.command, *trainer.args))
    work = labels.get(WORK_LABEL) or None
    steps = whole(annotations.get(STEPS_ANNOTATION))
    if not work:  # the command first: it cannot change, while anyone may edit the annotation
        steps = whole(_literal(_STEPS, command)) or steps
    run = _object_of(jobset.metadata, jobset.status.conditions)
    return replace(
        run,
        mode=mode,
        tpu=tpu_of(slices.pod) if slices else None,
        num_slices=slices.replicas if slices else None,
        steps=steps,
        output=run.output or _literal(_OUTPUT, command),
        queue=labels.get(QUEUE_LABEL) or None,
        image=trainer.image or None,
        suspended=jobset.spec.suspend,
        terminal=jobset.status.terminal,
        jobs=_replicated(jobset),
        has_status=jobset.status != JobSetStatus(),
        restarts=jobset.status.restarts,
        max_restarts=jobset.spec.failure_policy.max_restarts,
        work=work,
        writes=annotations.get(WRITES_ANNOTATION) or None,
        data_on_restart=annotations.get(DATA_ANNOTATION) or None,
    )


def server_of(server: Deployment) -> RunObject:
    """Return the Deployment. Its one job is ready if the pod is: if /health answers."""
    pod = server.spec.template.spec
    tpu = tpu_of(pod)
    return replace(
        _object_of(server.metadata, server.status.conditions),
        kind="Deployment",
        tpu=tpu,
        num_slices=1 if tpu else None,
        image=next((container.image for container in pod.containers), None),
        jobs=(ReplicatedJob(name=SERVER_JOB, replicas=1, ready=server.status.ready_replicas),),
        has_status=server.status != DeploymentStatus(),
        work="serve",
    )


def parse_jobset(json: JsonObject) -> RunObject:
    """Return the JobSet of a dictionary. Raises Unreachable as `typed`."""
    return jobset_of(typed(json, JOBSET))


def parse_server(json: JsonObject) -> RunObject:
    """Return the Deployment of a dictionary. Raises Unreachable as `typed`."""
    return server_of(typed(json, DEPLOYMENT))


def _object_of(metadata: ObjectMetadata, conditions: tuple[Condition, ...]) -> RunObject:
    """Return the fields that JobSets and Deployments have in the same place."""
    label = metadata.labels.get(RUN_LABEL)
    # the label counts only if the name can be an attempt of that run: it may have been copied (`naming.attempt_name`)
    run_name = label if label and attempt_number(metadata.name, first=label) else None
    return RunObject(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        created_at=metadata.creation_timestamp,
        run_name=run_name or metadata.name,
        target=launcher_named(metadata.labels.get(TARGET_LABEL) or None),
        ours=run_name is not None and metadata.labels.get(MANAGER_LABEL) == "xsft",
        output=metadata.annotations.get(OUTPUT_ANNOTATION) or None,
        spec_digest=metadata.annotations.get(DIGEST_ANNOTATION) or None,
        conditions=conditions,
        deleting_at=metadata.deletion_timestamp,
    )


def _mode(labels: Mapping[str, str], jobs: tuple[ReplicatedJobSpec, ...]) -> ModeName | None:
    names = {job.name for job in jobs}
    labelled = [mode for mode in MODES if labels.get(MODE_LABEL) == mode]
    by_names = [m for m in MODES if {mode_rules(m).replicated_job, mode_rules(m).trainer_job} <= names]
    return next(iter((*labelled, *by_names)), None)


def _find_slice_job(jobs: tuple[ReplicatedJobSpec, ...], mode: ModeName | None) -> ReplicatedJobSpec | None:
    """Return the replicated job of the slices: by its name, else the first that requests TPUs."""
    if mode:
        return next((job for job in jobs if job.name == mode_rules(mode).replicated_job), None)
    return next((job for job in jobs if ACCELERATOR in job.pod.node_selector), None)


def _trainer(jobs: tuple[ReplicatedJobSpec, ...], mode: ModeName | None) -> ContainerSpec:
    """Return the container that trains: by xpk's name, else the first container of the first job."""
    named_jobs = [job for job in jobs if mode and job.name == mode_rules(mode).trainer_job]
    containers = [container for job in (*named_jobs, *jobs)[:1] for container in job.pod.containers]
    by_name = [container for container in containers if container.name.startswith(TRAINER_CONTAINER)]
    return next(iter((*by_name, *containers)), ContainerSpec())


def tpu_of(pod: PodSpec) -> str | None:
    shape = shape_of(pod.node_selector)
    return shape.tpu_type if shape else None


def shape_of(labels: Mapping[str, str]) -> Slice | None:
    """Return the slice that a node, or a node selector, has in its labels; None if it has none or an unknown one."""
    accelerator, topology = labels.get(ACCELERATOR), labels.get(TOPOLOGY)
    return slice_of(accelerator, topology) if accelerator and topology else None


def _literal(pattern: re.Pattern[str], command: str) -> str | None:
    """Return an argument's value if the command sets it once and without a variable."""
    values = set(pattern.findall(command))
    value = values.pop() if len(values) == 1 else ""
    return value if value and "$" not in value and "`" not in value else None


def _replicated(jobset: JobSet) -> tuple[ReplicatedJob, ...]:
    """Return the replicated jobs in the spec's order; the status lists them in any order."""
    counts = {job.name: job for job in jobset.status.replicated_jobs_status}
    jobs = jobset.spec.replicated_jobs
    return tuple(replace(counts.get(job.name, ReplicatedJob(name=job.name)), replicas=job.replicas) for job in jobs)
