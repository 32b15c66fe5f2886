"""Paths in the JobSets that xpk renders, per mode. Pure.

source: manifests rendered by xpk@1.16.0 in both modes; a contract test renders them again.
"""

from __future__ import annotations

from msgspec import Struct

from xsft.base.names import ModeName
from xsft.base.pointers import NamedEntry, Pointer
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
