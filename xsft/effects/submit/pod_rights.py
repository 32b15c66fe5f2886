"""Asks Google Cloud for the rights of the service account that a run's pods use, where the user's login may.

source: REST references of IAM (projects.serviceAccounts.getIamPolicy), of Service Account Credentials
(projects.serviceAccounts.generateAccessToken) and of Cloud Storage (buckets.testIamPermissions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.auth.exceptions import GoogleAuthError
from google.oauth2.credentials import Credentials
from requests import RequestException

from xsft.checks.pod_identity import PodRights, is_bound
from xsft.effects.machine.google_files import may_log_in
from xsft.effects.machine.google_login import SCOPE, google_credentials, google_session
from xsft.effects.records.writable import OBJECT_PERMISSIONS

TIMEOUT_S = 5.0
LIFETIME_S = 300


@dataclass(frozen=True, kw_only=True)
class GoogleIam:
    """The APIs that know a service account's rights, asked with the user's login."""

    session: Any = field(repr=False)
    iam: str = "https://iam.googleapis.com"
    credentials: str = "https://iamcredentials.googleapis.com"
    storage: str = "https://storage.googleapis.com"

    def rights(self, email: str, *, member: str, buckets: Sequence[str]) -> PodRights:
        """Return the rights on `buckets`, `gs://name`, as far as this login may know them; it changes nothing.
        `member`: `[namespace/name]` of the Kubernetes ServiceAccount.
        """
        token = self._token(email)
        tested = {bucket: self._lacking(bucket, token) for bucket in buckets} if token else {}
        lacking = {bucket: names for bucket, names in tested.items() if names is not None}
        return PodRights(bound=self._bound(email, member), lacking=lacking if len(lacking) == len(tested) else {})

    def _bound(self, email: str, member: str) -> bool | None:
        policy = self._asked("POST", f"{self.iam}/v1/projects/-/serviceAccounts/{email}:getIamPolicy", json={})
        return None if policy is None else is_bound(policy, member)

    def _token(self, email: str) -> str | None:
        """Return an access token of the account, valid for five minutes; None unless impersonation is allowed."""
        path = f"{self.credentials}/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
        answer = self._asked("POST", path, json={"scope": [SCOPE], "lifetime": f"{LIFETIME_S}s"})
        return str(answer["accessToken"]) if answer and "accessToken" in answer else None

    def _lacking(self, bucket: str, token: str) -> tuple[str, ...] | None:
        name = bucket.removeprefix("gs://")
        path = f"{self.storage}/storage/v1/b/{name}/iam/testPermissions"
        as_pod = google_session(Credentials(token=token))  # type: ignore[no-untyped-call]
        answer = self._asked("GET", path, session=as_pod, params={"permissions": OBJECT_PERMISSIONS})
        held = () if answer is None else answer.get("permissions") or ()
        return None if answer is None else tuple(name for name in OBJECT_PERMISSIONS if name not in held)

    def _asked(self, method: str, url: str, *, session: Any = None, **options: Any) -> dict[str, Any] | None:
        """Return the answer; None without one, whatever the reason: this look is never what stops a run."""
        try:
            answer = (session or self.session).request(method, url, timeout=TIMEOUT_S, **options)
            found = answer.json() if answer.status_code == 200 else None
        except (GoogleAuthError, RequestException, ValueError):
            return None
        return found if isinstance(found, dict) else None


def connect_iam(env: Mapping[str, str]) -> GoogleIam | None:
    """Connect with the Application Default Credentials; None without a login."""
    if not may_log_in(env):
        return None
    try:
        return GoogleIam(session=google_session(google_credentials()))
    except (GoogleAuthError, OSError):
        return None
