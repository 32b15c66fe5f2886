"""Reads a few small files, on this machine or in a bucket. Writes nothing, and each query has a short time limit.

`xsft.machine.objects` writes, with the same client and the same errors.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct

from xsft.base.errors import Unreachable
from xsft.base.names import FIX, is_placeholder, placeholder_in
from xsft.machine import clock
from xsft.machine.bounded import BoundedBytes
from xsft.machine.deadline import Retries
from xsft.machine.files import system_words
from xsft.machine.parallel import call_within, repeat_call
from xsft.machine.paths import LOGIN, may_log_in
from xsft.machine.process import own_environment
from xsft.machine.regular import open_regular

T = TypeVar("T")

REQUEST_TIMEOUT_S = 5.0
DEADLINE_S = 15.0
"""Seconds for each query, name resolution and one repetition included. A slow answer is not an error: the number of
queries is limited, but not their total time."""
PAUSES_S = (0.5,)
"""Seconds before each further try of a query without an answer (429, 503, a broken connection, a timeout)."""
LONGEST_PAUSE_S = 15.0
"""If the server asks for a longer pause, no further try is made."""
MAX_NAMES = 100_000
"""Maximum number of entries read of a folder. More is an error, since a part of the list does not show the last entry.
A checkpoint with one directory per parameter has a few hundred, a long run that keeps every checkpoint some thousand.
"""

MAX_FILES = 20_000
"""Maximum number of files whose sizes are added up; deepseek3 without OCDBT has some ten thousand."""
EVERY_S = 10.0
"""Seconds between two reads; each lists the folder's files."""


class StoredObject(Struct, frozen=True, kw_only=True):
    """One object of a bucket, as a list describes it."""

    path: str
    """gs://bucket/name."""
    size: int
    crc32c: str
    """CRC-32C of its bytes, base64 of 4 bytes, big-endian; Cloud Storage has one of every object."""


class Storage(Protocol):
    """A place that holds files. All methods raise Unreachable if the place cannot be read."""

    def read(self, path: str, *, limit: int, start: int = 0) -> bytes | None:
        """Return at most `limit` bytes from `start`; None if there is no such file."""

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names directly in the folder, folders with a slash at the end; empty if there are none."""

    def folders_with(self, folder: str, files: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the folders directly in the folder that hold at least one of the files."""

    def size(self, folder: str) -> int | None:
        """Return the bytes of all files below the folder; None if there are more than MAX_FILES."""


def storage_for(path: str, *, env: Mapping[str, str], deadline_s: float | None = None) -> Storage:
    """Return the place that holds a path. Raises Unreachable for a bucket that is a placeholder, or without a login.
    `deadline_s`: for each query to a bucket, from when it is sent, repetition included.
    """
    if not path.startswith("gs://"):
        return LocalStorage()
    name = placeholder_in(bucket_and_name(path)[0])
    if name and not is_emulated(env):  # an emulator accepts any bucket
        raise Unreachable(is_placeholder(name).rstrip("."), fix=FIX, id="place-placeholder", again="never")
    return gcs_storage(env, deadline_s=deadline_s)


class LocalStorage:
    """Files on this machine."""

    def __init__(self, *, max_names: int = MAX_NAMES, max_files: int = MAX_FILES) -> None:
        self._max_names = max_names
        self._max_files = max_files

    def read(self, path: str, *, limit: int, start: int = 0) -> bytes | None:
        try:
            if not stat.S_ISREG(Path(path).stat().st_mode):
                return None
            with open_regular(path) as file:
                file.seek(start)
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
            raise _cannot_read(path, failed) from None

    def names(self, folder: str) -> tuple[str, ...]:
        try:
            with os.scandir(folder) as entries:
                names = sorted(f"{e.name}/" if e.is_dir() else e.name for e in islice(entries, self._max_names + 1))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError) as failed:
            raise _cannot_read(folder, failed) from None
        refuse_too_many(folder, len(names), limit=self._max_names)
        return tuple(names)

    def folders_with(self, folder: str, files: tuple[str, ...]) -> tuple[str, ...]:
        inside = (name.rstrip("/") for name in self.names(folder) if name.endswith("/"))
        return tuple(name for name in inside if any(os.path.isfile(os.path.join(folder, name, file)) for file in files))

    def size(self, folder: str) -> int | None:
        try:
            files = (Path(root) / name for root, _folders, names in os.walk(folder) for name in names)
            sizes = [file.lstat().st_size for file in islice(files, self._max_files + 1)]
        except OSError as failed:
            raise _cannot_read(folder, failed) from None
        return sum(sizes) if len(sizes) <= self._max_files else None


READING = "storage.objects.get and storage.objects.list"
"""The permissions that a reader needs."""


class GcsStorage:
    """Objects in Cloud Storage, through the given google.cloud.storage client."""

    def __init__(
        self,
        client: Any,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        deadline_s: float | None = None,
        pauses: Sequence[float] = PAUSES_S,
        sleep: Callable[[float], None] = clock.pause,
        permissions: str = READING,
        max_names: int = MAX_NAMES,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._max_names = max_names
        self._deadline_s = deadline_s
        self._tries: dict[str, Any] = {"pauses": pauses, "sleep": sleep, "permissions": permissions}

    def _blob(self, path: str) -> Any:
        bucket, name = bucket_and_name(path)
        return self._client.bucket(bucket).blob(name)

    def read(self, path: str, *, limit: int, start: int = 0) -> bytes | None:
        blob = self._blob(path)
        options = {"timeout": self._timeout_s, "retry": None, "checksum": None}

        def download() -> bytes:
            content = BoundedBytes(limit)  # a server may ignore the range
            blob.download_to_file(content, start=start, end=start + limit - 1, **options)
            return content.getvalue()

        return self.ask(path, download)

    def names(self, folder: str) -> tuple[str, ...]:
        bucket, name = bucket_and_name(folder)
        prefix = f"{name}/" if name else ""
        return self.ask(folder, lambda: self._names_below(bucket, prefix)) or ()

    def folders_with(self, folder: str, files: tuple[str, ...]) -> tuple[str, ...]:
        bucket, name = bucket_and_name(folder)
        return self.ask(folder, lambda: self._prefixes_holding(bucket, f"{name}/", files)) or ()

    def _prefixes_holding(self, bucket: str, prefix: str, files: tuple[str, ...]) -> tuple[str, ...]:
        """One query for each 1,000 of such files. source: cloud.google.com/storage/docs/json_api/v1/objects/list,
        matchGlob."""
        options = {"timeout": self._timeout_s, "retry": None, "max_results": self._max_names}
        pattern = f"**/{{{','.join(files)}}}"
        blobs = self._client.list_blobs(bucket, prefix=prefix, match_glob=pattern, **options)
        inside = (blob.name.removeprefix(prefix).split("/") for blob in blobs)
        return tuple(sorted({parts[0] for parts in inside if len(parts) == 2 and parts[1] in files}))

    def size(self, folder: str) -> int | None:
        bucket, name = bucket_and_name(folder)
        return self.ask(folder, lambda: self._sum_sizes(bucket, f"{name}/" if name else ""))

    def objects(self, prefix: str) -> tuple[StoredObject, ...]:
        """Return the first MAX_FILES objects whose paths begin with the prefix, in the order of their names."""
        bucket, _, name = prefix.removeprefix("gs://").partition("/")
        return self.ask(prefix, lambda: self._list_objects(bucket, name)) or ()

    def _list_objects(self, bucket: str, prefix: str) -> tuple[StoredObject, ...]:
        options = {"timeout": self._timeout_s, "retry": None, "max_results": MAX_FILES}
        return tuple(
            StoredObject(path=f"gs://{bucket}/{blob.name}", size=int(blob.size), crc32c=str(blob.crc32c))
            for blob in self._client.list_blobs(bucket, prefix=prefix, **options)
        )

    def _sum_sizes(self, bucket: str, prefix: str) -> int | None:
        options = {"timeout": self._timeout_s, "retry": None, "max_results": MAX_FILES + 1}
        sizes = [int(blob.size) for blob in self._client.list_blobs(bucket, prefix=prefix, **options)]
        return sum(sizes) if len(sizes) <= MAX_FILES else None

    def _names_below(self, bucket: str, prefix: str) -> tuple[str, ...]:
        options = {"timeout": self._timeout_s, "retry": None}
        blobs, folders = blobs_below(self._client, bucket, prefix, max_names=self._max_names, **options)
        names = (*(blob.name for blob in blobs), *folders)
        return tuple(sorted(name.removeprefix(prefix) for name in names if name != prefix))

    def ask(self, path: str, question: Callable[[], T], **more: Any) -> T | None:
        """Query as `ask_storage` does, until the deadline if there is one."""
        asking = partial(ask_storage, path, question, **{**self._tries, **more})
        return asking() if self._deadline_s is None else call_within(self._deadline_s, asking)


def done_by(change: Callable[[], object]) -> Callable[[], bool]:
    """Return a query that makes the change, and is True when it is made."""

    def make_change() -> bool:
        change()
        return True

    return make_change


def blobs_below(
    client: Any, bucket: str, prefix: str, *, max_names: int = MAX_NAMES, **options: Any
) -> tuple[list[Any], frozenset[str]]:
    """Return the blobs and folders directly below the prefix, over all pages (of 1,000 names) of the list."""
    listed = client.list_blobs(bucket, prefix=prefix, delimiter="/", **options)
    blobs: list[Any] = []
    for page in listed.pages:
        blobs.extend(page)
        refuse_too_many(f"gs://{bucket}/{prefix}", len(blobs) + len(listed.prefixes), limit=max_names)
    return blobs, frozenset(listed.prefixes)


def refuse_too_many(folder: str, count: int, *, limit: int) -> None:
    """Raise Unreachable: a part of the entries does not show what the folder contains."""
    if count > limit:
        message = f"{folder} has more than {limit:,} entries, and the rest was not read"
        raise Unreachable(message, fix="Check that it is a run's folder, and remove files that are not needed.")


def ask_storage(
    path: str,
    question: Callable[[], T],
    *,
    permissions: str,
    pauses: Sequence[float] = (),
    sleep: Callable[[float], None] = clock.pause,
) -> T | None:
    """Return the answer to a query. None if Cloud Storage reports not found, False if the object exists and must not;
    raises Unreachable for any other failure, EnvironmentMissing if the bucket's encryption key cannot be used.

    `pauses`: seconds before each further try, if it is busy (429, 503) or the connection breaks; empty: one try. A
    query with retries must be harmless if it is executed twice.
    """
    gcs = _gcs()
    retries = Retries(pauses, longest_s=LONGEST_PAUSE_S, sleep=sleep)
    while True:
        try:
            return question()
        except gcs.ANSWERS as answer:
            return cast("T | None", gcs.answer_of(answer))
        except gcs.FAILURES as failed:
            if not gcs.may_pass(failed) or not retries.again(gcs.asked_pause_s(failed)):
                raise gcs.error_of(path, failed, permissions) from None


def gcs_storage(env: Mapping[str, str], *, deadline_s: float | None = None) -> GcsStorage:
    """Return the storage. Raises Unreachable as `gcs_client` does."""
    return GcsStorage(gcs_client(env), deadline_s=deadline_s)


def gcs_client(env: Mapping[str, str]) -> Any:
    """Return a google.cloud.storage client; an emulator's without a login. Raises Unreachable without a login.

    Checking for the login's files first saves the import (0.6 CPU-s) and the search for a metadata server (seconds).
    """
    if not is_emulated(env) and not may_log_in(env):
        raise Unreachable("no Google Cloud login was found", fix=LOGIN)
    return _gcs().client(env, emulated=is_emulated(env))


def _gcs() -> ModuleType:
    try:
        from xsft.machine import gcs
    except ImportError as failed:
        message = f"google-cloud-storage cannot be imported: {failed}"
        raise Unreachable(message, fix="Reinstall xsft.") from None
    return gcs


def is_emulated(env: Mapping[str, str]) -> bool:
    """Return whether an emulator takes the place of Cloud Storage. source: google-cloud-storage's variable."""
    return bool(env.get("STORAGE_EMULATOR_HOST"))


def bucket_and_name(path: str) -> tuple[str, str]:
    bucket, _, name = path.removeprefix("gs://").partition("/")
    return bucket, name.strip("/")


def _cannot_read(path: str, failed: OSError | ValueError) -> Unreachable:
    return Unreachable(f"{path}: {system_words(failed)}", fix="Check its permissions (ls -ld).")


@contextmanager
def watch_growth(folder: str, *, on_size: Callable[[int], None], every_s: float = EVERY_S) -> Iterator[None]:
    """Call `on_size` with the bytes of the folder from a thread, while the block runs. A size that cannot be read is
    skipped, because it is only shown."""

    def look() -> None:
        with suppress(Unreachable):
            size = storage_for(folder, env=own_environment()).size(folder)
            if size is not None:
                on_size(size)

    with repeat_call(look, every_s=every_s):
        yield
