"""Looking at a few small files, on this machine or in a bucket. Nothing is written, and no question waits for long.

`xsft.effects.records.objects` writes, with the same client and the same errors.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from xsft.effects.machine.google_login import google_credentials, google_session, may_log_in
from xsft.effects.machine.parallel import start
from xsft.effects.machine.regular import open_regular
from xsft.errors import Unreachable
from xsft.spec.placeholders import FIX, is_placeholder, placeholder_in
from xsft.spec.secrets import redact

T = TypeVar("T")

REQUEST_TIMEOUT_S = 5.0
PAUSES_S = (0.5,)
"""Before each further try of a question that got no answer (429, 503, a broken connection, a timeout)."""
MAX_NAMES = 100_000
"""Entries of a folder that are read; more are an error, since a part of them says nothing of the last one. A
checkpoint of one directory per parameter has a few hundred, a long run that keeps every checkpoint some thousand.
"""

LOGIN = "Log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file."
MAX_FILES = 20_000
"""Whose sizes are added up; deepseek3 without OCDBT has some ten thousand."""


class Storage(Protocol):
    """Where files lie. All raise Unreachable when they may not or cannot look."""

    def read(self, path: str, *, limit: int) -> bytes | None:
        """At most `limit` bytes from the start; None where there is no such file."""

    def names(self, folder: str) -> tuple[str, ...]:
        """What lies directly in the folder, folders with a slash at the end; empty where nothing is."""

    def size(self, folder: str) -> int | None:
        """Bytes of all files below the folder; None where there are more than MAX_FILES."""


def storage_for(path: str, *, env: Mapping[str, str]) -> Storage:
    """Raises Unreachable where a bucket is asked for that is a placeholder, or nobody is logged in."""
    if not path.startswith("gs://"):
        return LocalStorage()
    name = placeholder_in(bucket_and_name(path)[0])
    if name and not env.get("STORAGE_EMULATOR_HOST"):  # an emulator has any bucket
        raise Unreachable(is_placeholder(name).rstrip("."), fix=FIX, id="place-placeholder")
    return gcs_storage(env)


def within(seconds: float, look: Callable[[], T]) -> T:
    """What `look` returns, or Unreachable after `seconds`: name resolution and TLS know no timeout of their own.

    The thread is left behind then; it holds nothing and ends with the process.
    """
    return start(look).result(seconds)


class LocalStorage:
    """Files of this machine."""

    def read(self, path: str, *, limit: int) -> bytes | None:
        try:
            if not stat.S_ISREG(Path(path).stat().st_mode):
                return None
            with open_regular(path) as file:
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as failed:  # ValueError: a NUL in the name
            raise _cannot_read(path, failed) from None

    def names(self, folder: str) -> tuple[str, ...]:
        try:
            with os.scandir(folder) as entries:
                found = sorted(f"{e.name}/" if e.is_dir() else e.name for e in islice(entries, MAX_NAMES + 1))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError) as failed:
            raise _cannot_read(folder, failed) from None
        refuse_too_many(folder, len(found))
        return tuple(found)

    def size(self, folder: str) -> int | None:
        try:
            files = (Path(root) / name for root, _folders, names in os.walk(folder) for name in names)
            sizes = [file.lstat().st_size for file in islice(files, MAX_FILES + 1)]
        except OSError as failed:
            raise _cannot_read(folder, failed) from None
        return sum(sizes) if len(sizes) <= MAX_FILES else None


class GcsStorage:
    """Objects of Cloud Storage, through the given google.cloud.storage client."""

    def __init__(
        self, client: Any, *, timeout_s: float = REQUEST_TIMEOUT_S, pauses: Sequence[float] = PAUSES_S
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._pauses = pauses

    def read(self, path: str, *, limit: int) -> bytes | None:
        bucket, name = bucket_and_name(path)
        blob = self._client.bucket(bucket).blob(name)
        options = {"timeout": self._timeout_s, "retry": None, "checksum": None}
        content = self._ask(path, lambda: blob.download_as_bytes(start=0, end=limit - 1, **options))
        return None if content is None else bytes(content)

    def names(self, folder: str) -> tuple[str, ...]:
        bucket, name = bucket_and_name(folder)
        prefix = f"{name}/" if name else ""
        return self._ask(folder, lambda: self._listed(bucket, prefix)) or ()

    def size(self, folder: str) -> int | None:
        bucket, name = bucket_and_name(folder)
        return self._ask(folder, lambda: self._summed(bucket, f"{name}/" if name else ""))

    def _summed(self, bucket: str, prefix: str) -> int | None:
        options = {"timeout": self._timeout_s, "retry": None, "max_results": MAX_FILES + 1}
        sizes = [int(blob.size) for blob in self._client.list_blobs(bucket, prefix=prefix, **options)]
        return sum(sizes) if len(sizes) <= MAX_FILES else None

    def _listed(self, bucket: str, prefix: str) -> tuple[str, ...]:
        blobs, folders = below(self._client, bucket, prefix, timeout=self._timeout_s, retry=None)
        names = (*(blob.name for blob in blobs), *folders)
        return tuple(sorted(name.removeprefix(prefix) for name in names if name != prefix))

    def _ask(self, path: str, question: Callable[[], T]) -> T | None:
        return ask(path, question, pauses=self._pauses)


def below(client: Any, bucket: str, prefix: str, **options: Any) -> tuple[list[Any], frozenset[str]]:
    """Blobs and folders directly below the prefix, over all pages (of 1,000 names) of the list."""
    listed = client.list_blobs(bucket, prefix=prefix, delimiter="/", **options)
    blobs: list[Any] = []
    for page in listed.pages:
        blobs.extend(page)
        refuse_too_many(f"gs://{bucket}/{prefix}", len(blobs) + len(listed.prefixes))
    return blobs, frozenset(listed.prefixes)


def refuse_too_many(folder: str, count: int) -> None:
    """Raises Unreachable: what is in it cannot be told by a part of it."""
    if count > MAX_NAMES:
        message = f"{folder} has more than {MAX_NAMES:,} entries, and no more are read"
        raise Unreachable(message, fix="Is it the folder of a run? Remove what is not needed there.")


def ask(
    path: str,
    question: Callable[[], T],
    *,
    permissions: str = "storage.objects.get and storage.objects.list",
    pauses: Sequence[float] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> T | None:
    """None where Cloud Storage says that it is not there; Unreachable where it says nothing useful.

    `pauses`: seconds before each further try, where it is busy (429, 503) or the connection breaks; none: one try.
    A question that is asked again must be one that does no harm twice.
    """
    from google.api_core.exceptions import GoogleAPICallError, NotFound, RequestRangeNotSatisfiable
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    for pause in (*pauses, None):
        try:
            return question()
        except NotFound:
            return None
        except RequestRangeNotSatisfiable:
            return b""  # type: ignore[return-value]  # an empty object has no first byte
        except GoogleAPICallError as failed:
            if pause is None or failed.code not in _BUSY:
                raise Unreachable(f"{path}: {_answer(failed.code)}", fix=_mend(failed.code, permissions)) from None
            sleep(max(pause, _asked_to_wait(failed)))
        except GoogleAuthError as failed:
            raise Unreachable(f"{path}: the login was not accepted ({_brief(failed)})", fix=LOGIN) from None
        except (RequestException, OSError) as failed:
            if pause is None:
                raise Unreachable(
                    f"{path}: no connection ({type(failed).__name__})", fix="Check the network."
                ) from None
            sleep(pause)
    raise AssertionError("the last try returns or raises")


def gcs_storage(env: Mapping[str, str]) -> GcsStorage:
    """Raises Unreachable as `gcs_client` does."""
    return GcsStorage(gcs_client(env))


def gcs_client(env: Mapping[str, str]) -> Any:
    """A google.cloud.storage client; `STORAGE_EMULATOR_HOST` is honoured (and asked without a login).

    Raises Unreachable where nobody is logged in. Looking for the login's files first saves the import (0.6 CPU-s) and
    a search for a metadata server (seconds).
    """
    emulated = bool(env.get("STORAGE_EMULATOR_HOST"))
    if not emulated and not may_log_in(env):
        raise Unreachable("no Google Cloud login was found", fix=LOGIN)
    try:
        from google.auth.credentials import AnonymousCredentials
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage import Client
    except ImportError as failed:
        message = f"google-cloud-storage does not import: {_brief(failed)}"
        raise Unreachable(message, fix="Install xsft again.") from None
    try:
        credentials = (
            AnonymousCredentials()  # type: ignore[no-untyped-call]
            if emulated
            else google_credentials(scopes=Client.SCOPE)
        )
        return Client(
            project=env.get("GOOGLE_CLOUD_PROJECT") or "xsft",
            credentials=credentials,
            _http=google_session(credentials),  # its own would take a login from ~/.netrc
        )
    except (GoogleAuthError, OSError, ValueError) as failed:
        raise Unreachable(f"the Google Cloud login cannot be used ({_brief(failed)})", fix=LOGIN) from None


def bucket_and_name(path: str) -> tuple[str, str]:
    bucket, _, name = path.removeprefix("gs://").partition("/")
    return bucket, name.strip("/")


_FORBIDDEN = (401, 403)
_BUSY = (429, 503)
_LONGEST_PAUSE_S = 4.0


def _asked_to_wait(failed: Any) -> float:
    """Seconds of a Retry-After header, bounded; 0 without one (or with a date)."""
    headers = getattr(getattr(failed, "response", None), "headers", None) or {}
    said = headers.get("Retry-After", "")
    return min(float(said), _LONGEST_PAUSE_S) if said.isdecimal() else 0.0


def _answer(code: int | None) -> str:
    return f"permission denied (HTTP {code})" if code in _FORBIDDEN else f"Cloud Storage answered HTTP {code}"


def _mend(code: int | None, permissions: str) -> str:
    if code in _FORBIDDEN:
        return f"Ask for {permissions} on the bucket, or log in as somebody who has them."
    return "Try again; status.cloud.google.com says whether Cloud Storage is up."


def _cannot_read(path: str, failed: OSError | ValueError) -> Unreachable:
    reason = (isinstance(failed, OSError) and failed.strerror) or str(failed)
    return Unreachable(f"{path}: {reason}", fix="Check its permissions (ls -ld).")


def _brief(failed: BaseException) -> str:
    """First line of what a library says, without tokens."""
    return redact((str(failed) or type(failed).__name__).splitlines()[0][:200])
