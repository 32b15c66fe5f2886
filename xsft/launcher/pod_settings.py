"""Settings of pods for which xpk has no flag: Secrets, ServiceAccount, labels and annotations. Pure.

Both the changes to xpk's manifest and the audit of the final one are made from these settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from xsft.base.pointers import JsonValue, NamedEntry, Pointer
from xsft.records.jobset_paths import JobSetPaths
from xsft.spec.resolve import Run
from xsft.trainer.trainer import HF_TOKEN_DIRECTORY, SECRET_DIRECTORY

HF_VOLUME = "xsft-hf-token"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""source: kubernetes/autoscaler cluster-autoscaler/FAQ.md, "What types of pods can prevent CA from removing a node?":
by default, a pod whose controller would make it again may be moved when its node is little used."""


class PodSetting(Struct, frozen=True, kw_only=True):
    field: str
    """Key path in the workload."""
    path: Pointer
    value: JsonValue
    why: str
    """Why the xpk line alone is not enough."""


def training_settings(run: Run, paths: JobSetPaths) -> Iterator[PodSetting]:
    """Yield the settings of the pods of a training."""
    yield from shared_settings(run, paths)
    why = "xpk has no Secret support: the variable refers to the Secret's key"
    for number, (name, secret) in enumerate(run.spec.secrets.env.items()):
        field = f"secrets.env.{name}"
        entry: JsonValue = {
            "name": name,
            "valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key, "optional": False}},
        }
        if secret.as_file:
            folder = f"{SECRET_DIRECTORY}/{name}"
            yield from _mount(paths, secret.secret, name=f"xsft-secret-{number}", folder=folder, field=field)
            entry = {"name": name, "value": f"{folder}/{secret.key}"}
        yield PodSetting(field=field, path=(*paths.trainer, "env", NamedEntry(name)), value=entry, why=why)
    if run.mode.single_controller:
        yield protection(paths)


def shared_settings(run: Run, paths: JobSetPaths) -> Iterator[PodSetting]:
    """Yield the settings that all JobSets of a workload have in common."""
    token = run.spec.secrets.hf_token
    if token is not None:
        yield from _mount(paths, token.secret, name=HF_VOLUME, folder=HF_TOKEN_DIRECTORY, field="secrets.hf_token")
    why = "xpk has no flag for accounts, labels and annotations of pods"
    pods = run.spec.pods
    for pod in dict.fromkeys((paths.slice_pod, paths.trainer_pod)):
        metadata = (*pod[:-1], "metadata")
        for name, label in pods.labels.items():
            yield PodSetting(field="pods.labels", path=(*metadata, "labels", name), value=label, why=why)
        for name, text in pods.annotations.items():
            yield PodSetting(field="pods.annotations", path=(*metadata, "annotations", name), value=text, why=why)
        if pods.service_account is not None:
            path = (*pod, "serviceAccountName")
            yield PodSetting(field="pods.service_account", path=path, value=pods.service_account, why=why)


def protection(paths: JobSetPaths) -> PodSetting:
    """Return the annotation by which an autoscaler leaves a pod of CPU nodes where it is. Pods of slices need none:
    their nodes are never little used."""
    path = (*paths.trainer_pod[:-1], "metadata", "annotations", SAFE_TO_EVICT)
    why = "an autoscaler may move the pod to another node, which ends the run"
    return PodSetting(field="pods", path=path, value="false", why=why)


def _mount(paths: JobSetPaths, secret: str, *, name: str, folder: str, field: str) -> Iterator[PodSetting]:
    """Yield the volume of a Secret and its mount in the trainer's container."""
    why = "xpk has no Secret support: the Secret is mounted as a file"
    # Readable by all: root owns the file, the image's user may be another one, and the pod has no other users.
    volume = {"name": name, "secret": {"secretName": secret, "defaultMode": 0o444}}
    mount = {"name": name, "mountPath": folder, "readOnly": True}
    yield PodSetting(field=field, path=(*paths.trainer_pod, "volumes", NamedEntry(name)), value=volume, why=why)
    yield PodSetting(field=field, path=(*paths.trainer, "volumeMounts", NamedEntry(name)), value=mount, why=why)
