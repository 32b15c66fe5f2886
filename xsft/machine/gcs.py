"""Cloud Storage through Google's own library: its client, and the meaning of its errors.

Imported only when a bucket is used: the library takes 0.4 CPU-s to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from google.api_core.exceptions import (
    GoogleAPICallError,
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage import Client
from requests.exceptions import RequestException

from xsft.base.errors import EnvironmentMissing, Unreachable, XsftError
from xsft.base.secrets import redact
from xsft.machine import clock
from xsft.machine.bounded import ODD_SHAPE
from xsft.machine.google_files import LOGIN
from xsft.machine.google_login import google_credentials, google_session
from xsft.machine.retries import Retries, retry_after_s

T = TypeVar("T")

_KEY = "Cloud KMS key"
"""In the answer of a bucket whose default key Cloud Storage's own account may not use, or which is disabled. source:
googleapis/nodejs-storage issue 1254, GoogleCloudPlatform/magic-modules pull 3747."""
_FORBIDDEN = (401, 403)
_BUSY = (429, 503)
_LONGEST_PAUSE_S = 15.0
"""If the server asks for a longer pause, no further try is made."""


def client(env: Mapping[str, str], *, emulated: bool) -> Client:
    """Return a client. Raises Unreachable if the login cannot be used. An emulator is used without a login."""
    try:
        credentials = (
            AnonymousCredentials()  # type: ignore[no-untyped-call]
            if emulated
            else google_credentials(scopes=Client.SCOPE)
        )
        return Client(
            project=env.get("GOOGLE_CLOUD_PROJECT") or "xsft",
            credentials=credentials,
            _http=google_session(credentials),  # the default session would use a login from ~/.netrc
        )
    except (GoogleAuthError, OSError, ValueError) as failed:
        raise Unreachable(f"the Google Cloud login cannot be used ({_brief(failed)})", fix=LOGIN) from None


def ask_bucket(
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
    retries = Retries(pauses, longest_s=_LONGEST_PAUSE_S, sleep=sleep)
    while True:
        try:
            return _ask_once(question)
        except GoogleAPICallError as failed:
            if failed.code not in _BUSY or not retries.again(_retry_after_s(failed)):
                raise _bucket_refused(path, failed, permissions) from None
        except GoogleAuthError as failed:
            raise Unreachable(f"{path}: the login was not accepted ({_brief(failed)})", fix=LOGIN) from None
        except (RequestException, OSError) as failed:
            if not retries.again():
                raise Unreachable(
                    f"{path}: no connection ({type(failed).__name__})", fix="Check the network."
                ) from None
        except ODD_SHAPE as odd:
            message = f"{path}: the answer cannot be read ({type(odd).__name__}: {_brief(odd)})"
            raise Unreachable(message, fix="Check for a proxy in between, and try again.", again="unsure") from None


def _ask_once(question: Callable[[], T]) -> T | None:
    """Return the answer, also if Cloud Storage gives it as an error."""
    try:
        return question()
    except NotFound:
        return None
    except PreconditionFailed:  # `if_generation_match=0`: it existed before
        return False  # type: ignore[return-value]
    except RequestRangeNotSatisfiable:
        return b""  # type: ignore[return-value]  # an empty object has no first byte


def _bucket_refused(path: str, failed: GoogleAPICallError, permissions: str) -> XsftError:
    if _KEY in str(failed.message):
        return _key_refused(path)
    if failed.code == 400:  # a retry would say the same; the server's own words say why
        message = f"{path}: Cloud Storage refused the request: {_brief(failed)}"
        return Unreachable(message, fix="Change what it names; a requester-pays bucket cannot be used.", again="never")
    return Unreachable(f"{path}: {_status_text(failed.code)}", fix=_mend(failed.code, permissions))


def _key_refused(path: str) -> EnvironmentMissing:
    """source: cloud.google.com/storage/docs/encryption/using-customer-managed-keys, "Service agent access"."""
    bucket = "/".join(path.split("/")[:3])
    key = f"$(gcloud storage buckets describe {bucket} --format='value(default_kms_key)')"
    return EnvironmentMissing(
        f"{path}: Cloud Storage may not use the bucket's default encryption key (Cloud KMS): objects can be neither "
        "written nor read.",
        fix=f"Ask the owner of the key to run: gcloud storage service-agent --authorize-cmek={key}",
        id="bucket-key",
    )


def _retry_after_s(failed: Any) -> float | None:
    return retry_after_s(getattr(getattr(failed, "response", None), "headers", None) or {})


def _status_text(code: int | None) -> str:
    return f"permission denied (HTTP {code})" if code in _FORBIDDEN else f"Cloud Storage answered HTTP {code}"


def _mend(code: int | None, permissions: str) -> str:
    if code in _FORBIDDEN:
        return f"Ask for {permissions} on the bucket, or log in with an account that has them."
    return "Try again; status.cloud.google.com says whether Cloud Storage is up."


def _brief(failed: BaseException) -> str:
    """Return the first line of a library's error message, without tokens."""
    return redact((str(failed) or type(failed).__name__).splitlines()[0])[:200]
