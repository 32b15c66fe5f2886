"""Files that are written once and never overwritten, on this machine or in a bucket, and the newest checkpoint."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from xsft.base.errors import EnvironmentMissing
from xsft.machine import clock
from xsft.machine.files import not_written, replacing_name, sync_folder, write_new
from xsft.machine.storage import (
    REQUEST_TIMEOUT_S,
    GcsStorage,
    LocalStorage,
    ask_storage,
    blobs_below,
    bucket_and_name,
    done_by,
    gcs_client,
)

T = TypeVar("T")

DEADLINE_S = 10.0
"""Time limit for one operation with all its tries."""
PAUSES_S = (0.5, 1.0, 2.0)
"""Seconds before the second, third and fourth try, if a bucket is busy (429, 503) or the connection breaks."""

SEND_TIMEOUT_S = 60.0
"""Timeout of each answer while a file is sent."""

PERMISSIONS = "storage.objects.create, storage.objects.get and storage.objects.list (roles/storage.objectUser)"

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links (Cloud Storage FUSE, some network shares)."""


WHOLE_IN_BUCKET = "commit_success.txt"
"""The file that Orbax writes last; a bucket has no rename, so a partly saved step already has its final name."""
WHOLE_HERE = "_CHECKPOINT_METADATA"
"""The file of a complete step; a partly saved step is named `N.orbax-checkpoint-tmp`. source, both:
orbax-checkpoint@0.12.8 path/atomicity.py
"""


class Objects(Protocol):
    """A place for files. All methods raise Unreachable if the outcome cannot be determined, EnvironmentMissing if the
    place does not accept the content.
    """

    def create(self, path: str, content: bytes) -> bool:
        """Write all of the content or nothing. Return False if the file exists already; it is not changed."""

    def read(self, path: str, *, limit: int) -> bytes | None:
        """Return at most `limit` bytes; None if there is no such file."""

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names directly in the folder; folders end with a slash."""

    def written(self, folder: str) -> Mapping[str, float | None]:
        """Return the files directly in the folder, with the time of the last write of each in seconds since 1970; None
        if that is unknown.
        """


def objects_for(path: str, *, env: Mapping[str, str]) -> Objects:
    """Return the place that holds a path. Raises Unreachable for a bucket without a login."""
    return GcsObjects(gcs_client(env)) if path.startswith("gs://") else LocalObjects()


class LocalObjects(LocalStorage):
    """Files on this machine."""

    def __init__(self, *, write: Callable[[int, bytes], int] = os.write, link: Callable[..., None] = os.link) -> None:
        super().__init__()
        self._write = write
        self._link = link

    def create(self, path: str, content: bytes) -> bool:
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return self._create(target, content)
        except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
            raise not_written(target, failed) from None

    def written(self, folder: str) -> Mapping[str, float | None]:
        return {name: _written_at(Path(folder) / name) for name in self.names(folder) if not name.endswith("/")}

    def _create(self, target: Path, content: bytes) -> bool:
        """Write the file under a hidden name, then link it: a writer that is killed leaves only a hidden file that is
        never read.
        """
        with replacing_name(target) as fresh:
            try:
                self._write_new(fresh, content)
                self._link(fresh, target)
            except FileExistsError:
                return False
            except OSError as failed:
                if failed.errno not in _NO_LINKS:
                    raise
                return self._create_in_place(target, content)
        sync_folder(target.parent)
        return True

    def _create_in_place(self, target: Path, content: bytes) -> bool:
        """Write the file without hard links. If the disk is full, the partial file is removed: this call created it."""
        try:
            self._write_new(target, content)
        except FileExistsError:
            return False
        except OSError:
            target.unlink(missing_ok=True)
            raise
        return True

    def _write_new(self, path: Path, content: bytes) -> None:
        write_new(path, content, write=self._write, mode=0o644)


class BucketSettings(Struct, frozen=True, kw_only=True):
    """The settings of a bucket that apply to every client."""

    location: str = ""
    """Region, dual-region or multi-region: `US-EAST5`, `NAM4`, `EU`; empty if unknown."""
    retention_s: int = 0
    requester_pays: bool = False
    deleted_after: Mapping[str, int] = field(default_factory=dict)
    """For each prefix of names, days after which a lifecycle rule deletes its objects."""


AGED = frozenset({"age", "isLive", "matchesPrefix"})
"""Conditions of a lifecycle rule that are evaluated; a rule with any other condition may not apply to a run's objects.
source: cloud.google.com/storage/docs/lifecycle, conditions."""


def _deleted_after(rules: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    days: dict[str, int] = {}
    for rule in rules:
        when = rule.get("condition") or {}
        deletes = (rule.get("action") or {}).get("type") == "Delete" and when.get("isLive") is not False
        if deletes and "age" in when and set(when) <= AGED:
            for prefix in when.get("matchesPrefix") or [""]:
                days[prefix] = min(int(when["age"]), days.get(prefix, int(when["age"])))
    return days


class GcsObjects(GcsStorage):
    """Objects in Cloud Storage, through the given google.cloud.storage client."""

    def __init__(
        self,
        client: Any,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        pauses: Sequence[float] = PAUSES_S,
        sleep: Callable[[float], None] = clock.pause,
    ) -> None:
        super().__init__(
            client, timeout_s=timeout_s, deadline_s=deadline_s, pauses=pauses, sleep=sleep, permissions=PERMISSIONS
        )
        self._options: dict[str, Any] = {"timeout": timeout_s, "retry": None}

    def create(self, path: str, content: bytes) -> bool:
        """Write the object. If an answer was lost, an earlier try may have written it: the result is False then, and
        the caller can compare the content.
        """
        options = {"content_type": "application/json", "if_generation_match": 0, **self._options}
        upload = partial(self._blob(path).upload_from_string, content, **options)
        return self._in_bucket(path, self.ask(path, done_by(upload), permissions="storage.objects.create"))

    def create_from(self, path: str, file: Path) -> bool:
        """Write the object as `create` does, with the content of a file of any size, without a limit for the whole
        time.
        """
        options = {"if_generation_match": 0, "retry": None, "timeout": SEND_TIMEOUT_S, "checksum": "crc32c"}
        upload = partial(self._blob(path).upload_from_filename, str(file), **options)
        tries = {**self._tries, "permissions": "storage.objects.create"}
        return self._in_bucket(path, ask_storage(path, done_by(upload), **tries))

    @staticmethod
    def _in_bucket(path: str, done: bool | None) -> bool:  # noqa: FBT001 - an answer
        """Return whether it was written. Raises EnvironmentMissing if it was refused because the bucket does not
        exist.
        """
        if done is None:
            bucket, _ = bucket_and_name(path)
            fix = f"Create it, or use another output: gcloud storage buckets create gs://{bucket}"
            raise EnvironmentMissing(f"the bucket {bucket} does not exist", fix=fix)
        return done

    def written(self, folder: str) -> Mapping[str, float | None]:
        bucket, name = bucket_and_name(folder)
        prefix = f"{name}/" if name else ""
        query = partial(blobs_below, self._client, bucket, prefix, **self._options)
        blobs, _ = self.ask(folder, query) or ([], frozenset())
        times = {blob.name.removeprefix(prefix): blob.updated for blob in blobs}
        return {name: updated.timestamp() if updated else None for name, updated in times.items() if name}

    def held_permissions(self, bucket: str, permissions: Sequence[str]) -> frozenset[str] | None:
        """Return which of the permissions this login holds on the bucket; None if there is no such bucket.
        Changes nothing.
        """
        question = partial(self._client.bucket(bucket).test_iam_permissions, list(permissions), **self._options)
        held_here = self.ask(f"gs://{bucket}", question)
        return None if held_here is None else frozenset(held_here)

    def settings(self, bucket: str) -> BucketSettings:
        """Return the bucket's settings that limit a run; needs storage.buckets.get."""
        settings = self.ask(f"gs://{bucket}", partial(self._client.get_bucket, bucket, **self._options))
        if settings is None:
            return BucketSettings()
        return BucketSettings(
            location=settings.location or "",
            retention_s=settings.retention_period or 0,
            requester_pays=bool(settings.requester_pays),
            deleted_after=_deleted_after(settings.lifecycle_rules),
        )


def _written_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:  # deleted since
        return None


def latest_step(objects: Objects, *, output: str, run_name: str) -> int | None:
    """Return the newest step with a complete checkpoint, or None. Raises Unreachable if the output cannot be read."""
    folder = checkpoints_folder(output, run_name)
    last_file = WHOLE_IN_BUCKET if output.startswith("gs://") else WHOLE_HERE
    for step in sorted(begun_steps(objects, output=output, run_name=run_name), reverse=True):
        if objects.read(f"{folder}/{step}/{last_file}", limit=1) is not None:
            return step
    return None


def begun_steps(objects: Objects, *, output: str, run_name: str) -> frozenset[int]:
    """Return the steps of all checkpoints, also of those that are saved in part. maxtext@0.2.5 names each checkpoint by
    its step. Raises Unreachable if the output cannot be read.
    """
    names = objects.names(checkpoints_folder(output, run_name))
    return frozenset(int(name[:-1]) for name in names if name.endswith("/") and name[:-1].isdecimal())


def checkpoints_folder(output: str, run_name: str) -> str:
    return f"{output.rstrip('/')}/{run_name}/checkpoints"
