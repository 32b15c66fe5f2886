"""Cloud Storage through Google's own library: its client, and the meaning of its errors.

Imported only when a bucket is used: the library takes 0.4 CPU-s to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from xsft.machine.bounded import ODD_SHAPE
from xsft.machine.deadline import retry_after_s
from xsft.machine.google_login import google_credentials, google_session
from xsft.machine.paths import LOGIN

_KEY = "Cloud KMS key"
"""In the answer of a bucket whose default key Cloud Storage's own account may not use, or which is disabled. source:
googleapis/nodejs-storage issue 1254, GoogleCloudPlatform/magic-modules pull 3747."""
_FORBIDDEN = (401, 403)
_BUSY = (429, 503)


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


ANSWERS = (NotFound, PreconditionFailed, RequestRangeNotSatisfiable)
"""Errors that are answers to a query."""
FAILURES = (GoogleAPICallError, GoogleAuthError, RequestException, OSError, *ODD_SHAPE)


def answer_of(answer: Exception) -> Any:
    """Return the answer that Cloud Storage gave as one of ANSWERS."""
    match answer:
        case PreconditionFailed():  # `if_generation_match=0`: it existed before
            return False
        case RequestRangeNotSatisfiable():  # an empty object has no first byte
            return b""
        case _:
            return None


def may_pass(failed: Exception) -> bool:
    """Return whether another try may succeed: it is busy (429, 503), or the connection broke."""
    if isinstance(failed, GoogleAPICallError):
        return failed.code in _BUSY
    return isinstance(failed, RequestException | OSError) and not isinstance(failed, GoogleAuthError)


def asked_pause_s(failed: Exception) -> float | None:
    """Return the seconds for which Cloud Storage asks to wait."""
    return retry_after_s(getattr(getattr(failed, "response", None), "headers", None) or {})


def error_of(path: str, failed: Exception, permissions: str) -> XsftError:
    """Return the error for one of FAILURES: EnvironmentMissing if the bucket's encryption key cannot be used, else
    Unreachable.
    """
    match failed:
        case GoogleAPICallError() if _KEY in str(failed.message):
            # source: cloud.google.com/storage/docs/encryption/using-customer-managed-keys, "Service agent access"
            bucket = "/".join(path.split("/")[:3])
            key = f"$(gcloud storage buckets describe {bucket} --format='value(default_kms_key)')"
            return EnvironmentMissing(
                f"{path}: Cloud Storage may not use the bucket's default encryption key (Cloud KMS): objects can be"
                " neither written nor read.",
                fix=f"Ask the owner of the key to run: gcloud storage service-agent --authorize-cmek={key}",
                id="bucket-key",
            )
        case GoogleAPICallError(code=400):  # a retry would say the same; the server's own words say why
            message = f"{path}: Cloud Storage refused the request: {_brief(failed)}"
            fix = "Change what it names; a requester-pays bucket cannot be used."
            return Unreachable(message, fix=fix, again="never")
        case GoogleAPICallError():
            message = f"{path}: Cloud Storage answered HTTP {failed.code}"
            fix = "Try again; status.cloud.google.com says whether Cloud Storage is up."
            if failed.code in _FORBIDDEN:
                message = f"{path}: permission denied (HTTP {failed.code})"
                fix = f"Ask for {permissions} on the bucket, or log in with an account that has them."
            return Unreachable(message, fix=fix)
        case GoogleAuthError():
            return Unreachable(f"{path}: the login was not accepted ({_brief(failed)})", fix=LOGIN)
        case RequestException() | OSError():
            return Unreachable(f"{path}: no connection ({type(failed).__name__})", fix="Check the network.")
        case _:
            message = f"{path}: the answer cannot be read ({type(failed).__name__}: {_brief(failed)})"
            return Unreachable(message, fix="Check for a proxy in between, and try again.", again="unsure")


def _brief(failed: BaseException) -> str:
    """Return the first line of a library's error message, without tokens."""
    return redact((str(failed) or type(failed).__name__).splitlines()[0])[:200]
