"""Small files that are written once and never overwritten, on this machine or in a bucket."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from xsft.effects.records.storage import (
    REQUEST_TIMEOUT_S,
    LocalStorage,
    ask,
    below,
    bucket_and_name,
    gcs_client,
    within,
)
from xsft.errors import EnvironmentMissing

T = TypeVar("T")

DEADLINE_S = 10.0
"""For one operation with all its tries."""
PAUSES_S = (0.5, 1.0, 2.0)
"""Before the second, third and fourth try where a bucket is busy (429, 503) or the connection breaks."""

PERMISSIONS = "storage.objects.create, storage.objects.get and storage.objects.list (roles/storage.objectUser)"

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links answer (Cloud Storage FUSE, some network shares)."""


class Objects(Protocol):
    """All raise Unreachable when nothing can be learnt, EnvironmentMissing when a place does not take the content."""

    def create(self, path: str, content: bytes) -> bool:
        """Write all of it or nothing; False where something is there already, which stays untouched."""

    def read(self, path: str, *, limit: int) -> bytes | None:
        """At most `limit` bytes; None where there is no such file."""

    def names(self, folder: str) -> tuple[str, ...]:
        """What lies directly in the folder, folders with a slash at the end."""

    def written(self, folder: str) -> Mapping[str, float | None]:
        """The files directly in the folder, with when each was written last, in seconds since 1970; None: not told."""


def objects_for(path: str, *, env: Mapping[str, str]) -> Objects:
    """Raises Unreachable where a bucket is asked for and nobody is logged in."""
    return GcsObjects(gcs_client(env)) if path.startswith("gs://") else LocalObjects()


class LocalObjects:
    """Files of this machine."""

    def __init__(self, *, write: Callable[[int, bytes], int] = os.write, link: Callable[..., None] = os.link) -> None:
        self._write = write
        self._link = link

    def create(self, path: str, content: bytes) -> bool:
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            return self._create(target, content)
        except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
            raise _not_written(path, failed) from None

    def read(self, path: str, *, limit: int) -> bytes | None:
        return LocalStorage().read(path, limit=limit)

    def names(self, folder: str) -> tuple[str, ...]:
        return LocalStorage().names(folder)

    def written(self, folder: str) -> Mapping[str, float | None]:
        return {name: _written_at(Path(folder) / name) for name in self.names(folder) if not name.endswith("/")}

    def _create(self, target: Path, content: bytes) -> bool:
        """Written beside and linked: whoever is killed half-way leaves a hidden file that nobody reads."""
        beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
        try:
            self._write_new(beside, content)
            self._link(beside, target)
        except FileExistsError:
            return False
        except OSError as failed:
            if failed.errno not in _NO_LINKS:
                raise
            return self._create_in_place(target, content)
        finally:
            beside.unlink(missing_ok=True)
        _sync(target.parent)
        return True

    def _create_in_place(self, target: Path, content: bytes) -> bool:
        """Without hard links; what is half-written when the disk is full goes, as it is ours."""
        try:
            self._write_new(target, content)
        except FileExistsError:
            return False
        except OSError:
            target.unlink(missing_ok=True)
            raise
        return True

    def _write_new(self, path: Path, content: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[self._write(fd, bytes(rest)) :]
            os.fsync(fd)
        finally:
            os.close(fd)


class GcsObjects:
    """Objects of Cloud Storage, through the given google.cloud.storage client."""

    def __init__(
        self,
        client: Any,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        pauses: Sequence[float] = PAUSES_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._options: dict[str, Any] = {"timeout": timeout_s, "retry": None}
        self._deadline_s = deadline_s
        self._pauses = pauses
        self._sleep = sleep

    def create(self, path: str, content: bytes) -> bool:
        """A try whose answer was lost may have written: False then, and the content is there to be compared."""
        done = self._ask(path, lambda: self._uploaded(path, content), permissions="storage.objects.create")
        if done is None:
            bucket, _ = bucket_and_name(path)
            fix = f"Create it, or name another output: gcloud storage buckets create gs://{bucket}"
            raise EnvironmentMissing(f"the bucket {bucket} does not exist", fix=fix)
        return done

    def read(self, path: str, *, limit: int) -> bytes | None:
        bucket, name = bucket_and_name(path)
        blob = self._client.bucket(bucket).blob(name)
        return self._ask(
            path, lambda: bytes(blob.download_as_bytes(start=0, end=limit - 1, checksum=None, **self._options))
        )

    def names(self, folder: str) -> tuple[str, ...]:
        bucket, name = bucket_and_name(folder)
        prefix = f"{name}/" if name else ""
        return self._ask(folder, lambda: self._listed(bucket, prefix)) or ()

    def written(self, folder: str) -> Mapping[str, float | None]:
        bucket, name = bucket_and_name(folder)
        prefix = f"{name}/" if name else ""
        return self._ask(folder, lambda: self._times(bucket, prefix)) or {}

    def held_permissions(self, bucket: str, wanted: Sequence[str]) -> frozenset[str] | None:
        """Which of `wanted` this login holds on the bucket; None where there is no such bucket. Changes nothing."""
        question = self._client.bucket(bucket).test_iam_permissions
        return self._ask(f"gs://{bucket}", lambda: frozenset(question(list(wanted), **self._options)))

    def _uploaded(self, path: str, content: bytes) -> bool:
        from google.api_core.exceptions import PreconditionFailed

        bucket, name = bucket_and_name(path)
        blob = self._client.bucket(bucket).blob(name)
        options = {"content_type": "application/json", "if_generation_match": 0, **self._options}
        try:
            blob.upload_from_string(content, **options)
        except PreconditionFailed:
            return False
        return True

    def _times(self, bucket: str, prefix: str) -> Mapping[str, float | None]:
        blobs, _ = below(self._client, bucket, prefix, **self._options)
        found = {blob.name.removeprefix(prefix): blob.updated for blob in blobs}
        return {name: at.timestamp() if at else None for name, at in found.items() if name}

    def _listed(self, bucket: str, prefix: str) -> tuple[str, ...]:
        blobs, folders = below(self._client, bucket, prefix, **self._options)
        names = (*(blob.name for blob in blobs), *folders)
        return tuple(sorted(name.removeprefix(prefix) for name in names if name != prefix))

    def _ask(self, path: str, question: Callable[[], T], *, permissions: str = PERMISSIONS) -> T | None:
        tries: dict[str, Any] = {"permissions": permissions, "pauses": self._pauses, "sleep": self._sleep}
        return within(self._deadline_s, lambda: ask(path, question, **tries))


def _written_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:  # it is gone since
        return None


def _sync(folder: Path) -> None:
    """Makes the new name last through a power cut, where the file system can."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def _not_written(path: str, failed: OSError | ValueError) -> EnvironmentMissing:
    code = failed.errno if isinstance(failed, OSError) else None
    folder = str(Path(path).parent) if "\0" not in path else "the folder"
    if code in {errno.ENOSPC, errno.EDQUOT}:
        return EnvironmentMissing(
            f"cannot write {path}: the disk is full", fix=f"Free some space (df -h {folder}); nothing was half-written."
        )
    reason = (isinstance(failed, OSError) and failed.strerror) or str(failed)
    return EnvironmentMissing(f"cannot write {path}: {reason}", fix=f"Check that you may write in {folder}.")
