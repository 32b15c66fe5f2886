"""Checks whether a run's output can be written, before anything is created and without leaving a file behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from xsft.base.problems import Problem, error, warning
from xsft.machine.objects import BucketSettings, GcsObjects
from xsft.machine.process import own_environment
from xsft.machine.storage import bucket_and_name, gcs_client

OBJECT_PERMISSIONS = ("storage.objects.create", "storage.objects.get", "storage.objects.list")
BUCKET_PERMISSION = "storage.buckets.get"
"""MaxText reads the bucket itself, and reports it as missing without this permission. source: maxtext docs
tutorials/posttraining/sft_on_multi_host.md, prerequisites.
"""
DELETE_PERMISSION = "storage.objects.delete"
"""Tunix keeps the last three checkpoints, and Cloud Storage asks for this permission to overwrite, too. source:
google-tunix@0.1.7 sft/checkpoint_manager.py; cloud.google.com/storage/docs/access-control/iam-permissions
"""
SOON_DAYS = 30
"""Age in days up to which a deletion is reported; a later one is a clean-up that a team plans with."""
CONTINENTS = {"nam": "us", "northamerica": "us", "eur": "europe", "eu": "europe"}
"""First words of locations on the same continent as another first word. source:
cloud.google.com/storage/docs/locations"""
MIN_FREE_BYTES = 100 * 10**6
"""A record takes some 30 kB; with less free space than this a run on this machine cannot even write its log."""


def check_writable(
    output: str,
    zone: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    objects: GcsObjects | None = None,
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> tuple[Problem, ...]:
    """Return the problems of `output` (a folder of this machine, or gs://), as far as they can be determined from here.
    `zone`: the cluster's. Raises Unreachable if the bucket does not answer within ten seconds, or without a login.
    """
    if not output.startswith("gs://"):
        return tuple(_check_local_output(Path(output), free))
    store = objects or GcsObjects(gcs_client(own_environment() if env is None else env))
    return tuple(_bucket(output, store, zone=zone))


def _bucket(output: str, objects: GcsObjects, *, zone: str | None) -> Iterator[Problem]:
    bucket, name = bucket_and_name(output)
    permissions = objects.held_permissions(bucket, (*OBJECT_PERMISSIONS, DELETE_PERMISSION, BUCKET_PERMISSION))
    if permissions is None:
        yield error(
            "output-bucket-missing",
            "output",
            f"The bucket {bucket} does not exist, or is hidden from your login.",
            f"Create it, or correct the name: gcloud storage buckets create gs://{bucket}",
        )
        return
    lacking = [permission for permission in OBJECT_PERMISSIONS if permission not in permissions]
    if lacking:
        yield error(
            "output-permission",
            "output",
            f"Your login cannot write results to the bucket {bucket}: it lacks {', '.join(lacking)}.",
            f"Ask its owner to grant roles/storage.objectUser: {_grant(bucket, 'roles/storage.objectUser')}",
        )
    elif DELETE_PERMISSION not in permissions:
        yield warning(
            "output-delete",
            "output",
            f"Your login lacks {DELETE_PERMISSION} on {bucket}; if the run's service account lacks it too, it can"
            " neither delete old checkpoints nor overwrite a file.",
            f"Grant that account roles/storage.objectUser: {_grant(bucket, 'roles/storage.objectUser')}",
        )
    if BUCKET_PERMISSION in permissions:
        settings = objects.settings(bucket)
        yield from _check_settings(bucket, name, settings)
        if zone and settings.location and _continent(zone) != _continent(settings.location):
            yield _far_output_warning(bucket, settings.location, zone)
    else:
        yield warning(
            "output-bucket-get",
            "output",
            f"Your login lacks {BUCKET_PERMISSION} on {bucket}; if the run's service account lacks it too, MaxText "
            "reports the bucket as missing.",
            "Grant that account roles/storage.legacyBucketReader beside roles/storage.objectUser: "
            f"{_grant(bucket, 'roles/storage.legacyBucketReader')}",
        )


def _check_settings(bucket: str, name: str, settings: BucketSettings) -> Iterator[Problem]:
    """source: cloud.google.com/storage/docs/bucket-lock, /docs/lifecycle and /docs/requester-pays."""
    if settings.retention_s:
        message = (
            f"The bucket {bucket} keeps every object for {settings.retention_s:,} s: until then a run can neither"
            " delete old checkpoints nor overwrite a file there (403 retentionPolicyNotMet)."
        )
        fix = "Use another bucket, or ask its owner for a lifecycle rule in place of the retention policy."
        yield warning("output-retention", "output", message, fix)
    deleted = [days for prefix, days in settings.deleted_after.items() if name.startswith(prefix)]
    if deleted and min(deleted) <= SOON_DAYS:
        message = (
            f"A lifecycle rule of the bucket {bucket} deletes objects under {name or 'it'} after {min(deleted)} days:"
            " checkpoints and exports too."
        )
        fix = "Use another bucket or folder, or copy what you keep in time."
        yield warning("output-lifecycle", "output", message, fix)
    if settings.requester_pays:
        message = (
            f"The bucket {bucket} is requester-pays, and MaxText names no project to bill: each request gets HTTP 400."
        )
        fix = f"Use another bucket, or: gcloud storage buckets update gs://{bucket} --no-requester-pays"
        yield warning("output-requester-pays", "output", message, fix)


def _far_output_warning(bucket: str, location: str, zone: str) -> Problem:
    message = (
        f"The bucket {bucket} is in {location}, and the cluster in {zone}, on another continent: checkpoints are slow "
        "while the chips wait, and traffic between continents is billed by the GiB."
    )
    fix = "Use a bucket in the cluster's region: gcloud storage buckets create gs://… --location=REGION"
    return warning("output-far", "output", message, fix)


def _continent(location: str) -> str:
    """Return the first word of a zone or a bucket's location, without digits; one word for each continent."""
    first = location.lower().partition("-")[0].rstrip("0123456789")
    return CONTINENTS.get(first, first)


def _grant(bucket: str, role: str) -> str:
    return f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --member=… --role={role}"


def _check_local_output(output: Path, free: Callable[[Path], int]) -> Iterator[Problem]:
    try:
        folder = next(path for path in (output, *output.absolute().parents) if _is_there(path))
        writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)  # also False where mounted read-only
        space = free(folder) if writable else 0
    except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
        yield _not_writable(str(output), str(failed))
        return
    if not writable:
        reason = "permission denied" if folder.is_dir() else "it is not a folder"
        yield _not_writable(str(output), f"{folder}: {reason}")
    elif space < MIN_FREE_BYTES:
        yield error(
            "output-disk-full",
            "output",
            f"{folder} has {space / 10**6:.0f} MB free, and a run needs at least {MIN_FREE_BYTES / 10**6:.0f} MB.",
            f"Free some space (df -h {folder}), or use another output.",
        )


def _is_there(path: Path) -> bool:
    """Return whether the path exists, as a dangling link too. Raises OSError or ValueError for names that no file
    system accepts.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _not_writable(output: str, reason: str) -> Problem:
    message = f"Results cannot be written to {ascii(output)[1:-1]}: {reason}."
    return error(
        "output-not-writable", "output", message, "Use a folder that you may write to, or change its permissions."
    )
