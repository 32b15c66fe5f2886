"""Changes to the manifest that xpk rendered, for what xpk cannot express. Pure: a list of changes, each with its
reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from xsft.base.pointers import JsonValue, NamedEntry, Pointer, put, remove
from xsft.launcher.encoding import RESTARTS
from xsft.launcher.pod_settings import PodSetting, training_settings
from xsft.records.jobset_paths import (
    DATA_ANNOTATION,
    DIGEST_ANNOTATION,
    FAIL_JOBSET_RULE,
    JOBSET_LABEL,
    MODE_LABEL,
    ON_DEMAND_TERMS,
    OUTPUT_ANNOTATION,
    RESTART_ATTEMPT,
    RUN_LABEL,
    SPOT_TOLERATIONS,
    STEPS_ANNOTATION,
    JobSetPaths,
    places,
    pod_failure_policy,
    reservation_name,
    target_label,
)
from xsft.spec.resolve import Run
from xsft.trainer.shuffling import counted_seeds, reshuffles

SPOT_LABEL = "cloud.google.com/gke-spot"
NODE_TERMS: Pointer = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
RESERVATION_LABEL = "cloud.google.com/reservation-name"
"""GKE's node labels; xpk sets them only on clusters with node auto-provisioning (xpk@1.16.0 core/capacity.py)."""


RESTARTS_FROM = {"fieldRef": {"fieldPath": f"metadata.labels['{RESTART_ATTEMPT}']"}}
"""Source of the restarts: the pod's own label, which JobSet puts on the pods of all its Jobs alike."""


class Change(Struct, frozen=True, kw_only=True):
    path: Pointer
    why: str
    """Why the xpk line alone is not enough; shown under `by_hand`."""
    value: JsonValue = None
    action: Literal["put", "remove"] = "put"


def apply(changes: Iterable[Change], manifest: JsonValue) -> JsonValue:
    for change in changes:
        match change.action:
            case "put":
                manifest = put(manifest, change.path, change.value)
            case "remove":
                manifest = remove(manifest, change.path)
    return manifest


def changes(run: Run, *, digest: str) -> tuple[Change, ...]:
    paths = places(run.mode.value)
    annotations = {
        DIGEST_ANNOTATION: digest,
        STEPS_ANNOTATION: str(run.spec.train.steps),
        OUTPUT_ANNOTATION: run.output or "",
        DATA_ANNOTATION: "reshuffle" if reshuffles(run) else "repeat",
    }
    return (
        *identity_changes(run, paths, labels=identity_labels(run), annotations=annotations, whose="run"),
        *setting_changes(training_settings(run, paths)),
        *pull_secret_changes(run, paths),
        *capacity_changes(run, paths),
        *_change_restarts_env(run, paths),
        *(_change_pathways(run, paths) if run.mode.single_controller else ()),
    )


def identity_labels(run: Run) -> dict[str, str]:
    """Return the labels of a JobSet that identify its run."""
    return {
        "app.kubernetes.io/managed-by": "xsft",
        RUN_LABEL: run.run_name,
        JOBSET_LABEL: run.jobset,
        MODE_LABEL: run.mode.value,
        **target_label(run.spec.target),
    }


def identity_changes(
    run: Run, paths: JobSetPaths, *, labels: Mapping[str, str], annotations: Mapping[str, str], whose: str
) -> Iterator[Change]:
    """Yield the changes that identify a JobSet. `whose`: the word for it."""
    why = f"the {whose}'s identity: xpk has no flag for labels and annotations"
    context = "xpk leaves the namespace to the kubeconfig context"
    yield Change(path=("metadata", "namespace"), value=run.namespace, why=context)
    for key, value in labels.items():
        yield Change(path=("metadata", "labels", key), value=value, why=why)
    for key, value in annotations.items():
        yield Change(path=("metadata", "annotations", key), value=value, why=why)
    for pod in sorted({paths.slice_pod[:-1], paths.trainer_pod[:-1]}, key=str):
        yield Change(path=(*pod, "metadata", "labels", RUN_LABEL), value=run.run_name, why=why)
    queue = ("metadata", "labels", "kueue.x-k8s.io/queue-name")
    yield Change(path=queue, value=run.queue, why="xpk supports only one queue, multislice-queue")


def setting_changes(settings: Iterable[PodSetting]) -> Iterator[Change]:
    for setting in settings:
        yield Change(path=setting.path, value=setting.value, why=setting.why)


def pull_secret_changes(run: Run, paths: JobSetPaths) -> Iterator[Change]:
    """Yield the changes for the pull Secret: xpk writes `imagePullSecrets: [{name: None}]` without one, and nothing at
    all under Pathways."""
    secret = run.spec.image.pull_secret
    for pod in dict.fromkeys((paths.slice_pod, paths.trainer_pod)):
        if secret is None:
            yield Change(path=(*pod, "imagePullSecrets"), action="remove", why="xpk refers to a Secret called None")
        else:
            why = "xpk ignores --docker-image-pull-secret under Pathways"
            yield Change(path=(*pod, "imagePullSecrets"), value=[{"name": secret}], why=why)


def capacity_changes(run: Run, paths: JobSetPaths) -> Iterator[Change]:
    """Yield the changes that put the slices on nodes of the requested capacity."""
    tpu = run.spec.tpu
    if tpu is None:
        return
    why = "xpk uses capacity flags only on clusters with node auto-provisioning; the node selector has it instead"
    selector = (*paths.slice_pod, "nodeSelector")
    if tpu.capacity == "spot":
        yield Change(path=(*selector, SPOT_LABEL), value="true", why=why)
        taint = "spot nodes may carry GKE's taint, which xpk's pods do not tolerate"
        yield Change(path=(*paths.slice_pod, "tolerations"), value=list(SPOT_TOLERATIONS), why=taint)
    if tpu.capacity == "on-demand":
        absent = "xpk ignores --on-demand: the run could land on spot or reserved nodes"
        yield Change(path=(*paths.slice_pod, *NODE_TERMS), value=list(ON_DEMAND_TERMS), why=absent)
    if tpu.capacity == "reservation" and tpu.reservation:
        yield Change(path=(*selector, RESERVATION_LABEL), value=reservation_name(tpu.reservation), why=why)


def _change_restarts_env(run: Run, paths: JobSetPaths) -> Iterator[Change]:
    if counted_seeds(run):
        why = (
            "xpk does not pass the number of JobSet restarts to a container, so each restart would read the same "
            "rows again"
        )
        value = {"name": RESTARTS, "valueFrom": RESTARTS_FROM}
        yield Change(path=(*paths.trainer, "env", NamedEntry(RESTARTS)), value=value, why=why)


def _change_pathways(run: Run, paths: JobSetPaths) -> Iterator[Change]:
    """Yield the changes for what xpk >= 1.8 drops since it renders Pathways as a plain JobSet."""
    spec = run.spec
    policy: Pointer = ("spec", "failurePolicy")
    yield Change(
        path=(*policy, "maxRestarts"), value=spec.restarts.max, why="xpk ignores --max-restarts under Pathways"
    )
    head = "xpk sets no failure policy for the Pathways head: a typo would restart every slice"
    yield Change(path=(*policy, "rules"), value=[FAIL_JOBSET_RULE], why=head)
    failure = pod_failure_policy(spec.restarts.on_exit_codes)
    yield Change(path=(*paths.trainer_job, "podFailurePolicy"), value=failure, why=head)
    ttl = "xpk ignores --ttl-seconds-after-finished under Pathways: finished JobSets would keep their names"
    yield Change(path=("spec", "ttlSecondsAfterFinished"), value=spec.ttl_seconds_after_finished, why=ttl)
    priority = "xpk sets --priority only for the workers"
    yield Change(path=(*paths.trainer_pod, "priorityClassName"), value=spec.priority, why=priority)
    if spec.restarts.grace_period_s is not None:
        grace = "xpk sets the grace period only for the workers; the trainer runs on the head"
        path = (*paths.trainer_pod, "terminationGracePeriodSeconds")
        yield Change(path=path, value=spec.restarts.grace_period_s, why=grace)
    label = (*paths.trainer_pod[:-1], "metadata", "labels", "xpk.google.com/workload")
    yield Change(path=label, value=run.jobset, why="xpk labels only the workers")
