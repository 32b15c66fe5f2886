"""Where a JobSet says what it is: the paths of its fields, per mode, and the labels and annotations of its run. Pure.

source: manifests rendered by xpk@1.16.0 in both modes; a contract test renders them again.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.base.names import ModeName
from xsft.base.pointers import NamedEntry, Pointer
from xsft.base.targets import FIRST
from xsft.spec.modes import mode_rules

TRAINER_CONTAINER = "jax-tpu"
"""Default of xpk's --docker-name."""

FAIL_EXIT_CODES_NOT_IN = (42, *range(127, 256))
"""Exit codes xpk lets restart: 42 and 127–255 (xpk@1.16.0 commands/workload.py, podFailurePolicy)."""


ON_DEMAND_TERMS = (
    {
        "matchExpressions": [
            {"key": "cloud.google.com/gke-spot", "operator": "NotIn", "values": ["true"]},
            {"key": "cloud.google.com/reservation-name", "operator": "DoesNotExist"},
        ]
    },
)
"""Node selector terms of on-demand nodes, which carry no label of their own: neither GKE's for spot nor for a
reservation.
"""

SPOT_TOLERATIONS = (
    {"operator": "Exists", "key": "google.com/tpu"},
    {"operator": "Equal", "key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"},
)
"""Tolerations of xpk, and of GKE's taint of spot nodes: node auto-provisioning makes spot nodes only for pods that
tolerate it, and GKE's guide tells people to put it on node pools of their own. source: GKE docs,
how-to/node-auto-provisioning and how-to/spot-vms."""
RUN_LABEL = "xsft.dev/run"
JOBSET_LABEL = "xsft.dev/jobset"
MODE_LABEL = "xsft.dev/mode"
TARGET_LABEL = "xsft.dev/target"
"""Label with the launcher that rendered a JobSet; one that xpk rendered has none."""
WORK_LABEL = "xsft.dev/work"
"""Label of a JobSet that does not train, with its kind of work (`naming.StageWork`); a training has none."""
SERVERS = f"{WORK_LABEL}=serve"
"""Label selector of the Deployments of all servers, and of their pods."""
DIGEST_ANNOTATION = "xsft.dev/spec-digest"
STEPS_ANNOTATION = "xsft.dev/steps"
OUTPUT_ANNOTATION = "xsft.dev/output"
FOR_ANNOTATION = "xsft.dev/for-run"
"""Annotation with the run_name of the training that such a job belongs to."""
DATA_ANNOTATION = "xsft.dev/data-on-restart"
"""Annotation with `reshuffle` or `repeat` (`restarts.data`)."""

TPU_NODE = "cloud.google.com/gke-tpu-accelerator"
"""GKE's label of TPU hosts; its value names the generation."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""Label of every node: its machine type."""

WRITES_ANNOTATION = "xsft.dev/writes"
"""Annotation with the path of such a job's result."""
SERVES_ANNOTATION = "xsft.dev/serves"
"""Annotation with the weights that a server loads: a folder, or a repository of the hub."""

RESTART_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
"""Label of each pod and Job: the restarts of its JobSet when it was made. source: jobset@v0.10.1
api/jobset/v1alpha2/jobset_types.go."""
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
"""Label of each pod and Job: its JobSet's name. source: jobset@v0.10.1 api/jobset/v1alpha2/jobset_types.go."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""Index of a pod in its Job: a label since Kubernetes 1.28, an annotation always. source: k8s.io/api batch/v1,
JobCompletionIndexAnnotation."""

FIRST_HOSTS = f"{JOBSET_NAME},{COMPLETION_INDEX}=0"
"""Label selector of the first pod of every Job. With exclusive placement JobSet makes no other before that one has a
node (jobset@v0.10.1 pkg/webhooks/pod_admission_webhook.go), so if it cannot pull the image, no pod can.
"""


class JobSetPaths(Struct, frozen=True, kw_only=True):
    """Paths in one mode's JobSet."""

    slices: Pointer
    """The replicated job of the slices."""
    slice_pod: Pointer
    """Pod spec of a host."""
    trainer_job: Pointer
    """Job spec of the trainer."""
    trainer_pod: Pointer
    """Pod spec of the trainer."""
    trainer: Pointer
    """The trainer's container."""
    chips: Pointer
    """Chip count of one host."""


def places(mode: ModeName) -> JobSetPaths:
    module = mode_rules(mode)
    slices: Pointer = ("spec", "replicatedJobs", NamedEntry(module.replicated_job))
    trainer_job: Pointer = ("spec", "replicatedJobs", NamedEntry(module.trainer_job), "template", "spec")
    slice_pod: Pointer = (*slices, "template", "spec", "template", "spec")
    trainer_pod: Pointer = (*trainer_job, "template", "spec")
    host_container = TRAINER_CONTAINER if module.trainer_job == module.replicated_job else "pathways-worker"
    return JobSetPaths(
        slices=slices,
        slice_pod=slice_pod,
        trainer_job=trainer_job,
        trainer_pod=trainer_pod,
        trainer=(*trainer_pod, "containers", NamedEntry(TRAINER_CONTAINER)),
        chips=(*slice_pod, "containers", NamedEntry(host_container), "resources", "limits", "google.com/tpu"),
    )


def reservation_name(reservation: str) -> str:
    """Return NAME of `projects/PROJECT/reservations/NAME`, or the name itself: a label's value holds no `/`."""
    return reservation.rpartition("/")[2]


def pod_failure_policy(extra_exit_codes: list[int]) -> dict[str, object]:
    """Return McJAX's rule, for a head that xpk gives none: an exit code that no restart can fix fails the run at
    once.
    """
    restartable = sorted({*FAIL_EXIT_CODES_NOT_IN, *extra_exit_codes})
    codes = {"containerName": TRAINER_CONTAINER, "operator": "NotIn", "values": restartable}
    return {"rules": [{"action": "FailJob", "onPodConditions": [], "onExitCodes": codes}]}


FAIL_JOBSET_RULE = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
"""Return JobSet's part of that rule: such a failure is never restarted, whatever maxRestarts is."""


def target_label(target: str) -> dict[str, str]:
    """Return the label of a launcher; empty for xpk, because `status` counts every JobSet without the label as
    xpk's."""
    return {} if target == FIRST else {TARGET_LABEL: target}
