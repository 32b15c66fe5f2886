"""Asks Google Cloud for the rights of the service account that a run's pods use, if the user's login may read them.

source: REST references of IAM (projects.serviceAccounts.getIamPolicy), of Service Account Credentials
(projects.serviceAccounts.generateAccessToken), of Cloud Storage (buckets.testIamPermissions) and of Compute Engine
(instances.get: the account of a node and its access scopes).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.auth.exceptions import GoogleAuthError
from google.oauth2.credentials import Credentials
from requests import RequestException

from xsft.checks.demand import Demand
from xsft.checks.pod_identity import PodRights, is_bound, member_of
from xsft.machine.google_files import may_log_in
from xsft.machine.google_login import SCOPE, google_credentials, google_session
from xsft.machine.writable import DELETE_PERMISSION, OBJECT_PERMISSIONS

TIMEOUT_S = 5.0
LIFETIME_S = 300
WRITING = frozenset({"cloud-platform", "devstorage.read_write", "devstorage.full_control"})
"""Access scopes with which a machine may write to Cloud Storage."""
OF_BUCKET = (*OBJECT_PERMISSIONS, DELETE_PERMISSION)


@dataclass(frozen=True, kw_only=True)
class GoogleIam:
    """The APIs that know a service account's rights, asked with the user's login, without Google's clients
    (0.4 CPU-s each to import).
    """

    session: Any = field(repr=False)
    iam: str = "https://iam.googleapis.com"
    credentials: str = "https://iamcredentials.googleapis.com"
    storage: str = "https://storage.googleapis.com"
    compute: str = "https://compute.googleapis.com"

    def rights(self, source: str, demand: Demand) -> PodRights:
        """Return the rights, as far as this login may read them. No token is made: that would be an impersonation in
        an audit log. `source`: an email, or `gce://project/zone/machine` of a node.
        """
        if source.startswith("gce://"):
            return self._of_node(source)
        return PodRights(email=source, bound=self._is_bound_to(source, member_of(demand)))

    def lacking_permissions(self, email: str, bucket: str) -> tuple[str, ...] | None:
        """Return what the account lacks on the bucket, tested with a token of that account; None if this login may not
        make one.
        """
        token = self._token(email)
        if token is None:
            return None
        path = f"{self.storage}/storage/v1/b/{bucket}/iam/testPermissions"
        session = google_session(Credentials(token=token))  # type: ignore[no-untyped-call]
        answer = self._ask_google("GET", path, session=session, params={"permissions": OF_BUCKET})
        if answer is None:
            return None
        return tuple(name for name in OF_BUCKET if name not in (answer.get("permissions") or ()))

    def _of_node(self, source: str) -> PodRights:
        """Return the account of a machine, and whether its access scopes allow writing."""
        project, _, rest = source.removeprefix("gce://").partition("/")
        zone, _, name = rest.partition("/")
        path = f"{self.compute}/compute/v1/projects/{project}/zones/{zone}/instances/{name}"
        answer = self._ask_google("GET", path, params={"fields": "serviceAccounts"}) or {}
        for account in answer.get("serviceAccounts") or ():
            scopes = {str(scope).rpartition("/")[2] for scope in account.get("scopes") or ()}
            return PodRights(email=str(account["email"]), writes=not scopes or bool(scopes & WRITING))
        return PodRights()

    def _is_bound_to(self, email: str, member: str) -> bool | None:
        policy = self._ask_google("POST", f"{self.iam}/v1/projects/-/serviceAccounts/{email}:getIamPolicy", json={})
        return None if policy is None else is_bound(policy, member)

    def _token(self, email: str) -> str | None:
        """Return an access token of the account, valid for five minutes; None unless impersonation is allowed."""
        path = f"{self.credentials}/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
        answer = self._ask_google("POST", path, json={"scope": [SCOPE], "lifetime": f"{LIFETIME_S}s"})
        return str(answer["accessToken"]) if answer and "accessToken" in answer else None

    def _ask_google(self, method: str, url: str, *, session: Any = None, **options: Any) -> dict[str, Any] | None:
        """Return the answer; None on any failure, because this check must never stop a run."""
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
