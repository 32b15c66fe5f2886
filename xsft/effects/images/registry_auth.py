"""Logs in to registries: no login is sent until the registry requests one, and none to another owner's host.

source: distribution@2.8 docs/spec/auth/token.md; Artifact Registry's documentation, "Access token".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from requests.utils import parse_dict_header

from xsft.base.secrets import hold_secret
from xsft.effects.images.docker_login import GOOGLE_USER, Credential, credential_for
from xsft.image.registry_names import is_google, may_be_told

TOKEN_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class RegistryLogin:
    """The user's login to one registry, if there is one."""

    host: str
    env: Mapping[str, str]

    @cached_property
    def credential(self) -> Credential | None:
        return credential_for(self.host, env=self.env)

    def at_once(self) -> dict[str, str]:
        """Return the header to send at once: Google's registries accept the access token itself."""
        if not is_google(self.host) or self.credential is None or self.credential.user != GOOGLE_USER:
            return {}
        return {"Authorization": f"Bearer {self.credential.secret}"}

    def answer(self, session: Any, challenge: str, *, scope: str) -> dict[str, str]:
        """Return the header for a 401's `WWW-Authenticate`; empty if there is no suitable login."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic":
            return _basic(self.credential)
        if kind.lower() != "bearer":
            return {}
        asked = parse_dict_header(rest)
        token = self._token(session, asked, scope=asked.get("scope") or scope)
        return {"Authorization": f"Bearer {hold_secret(token)}"} if token else {}

    def _token(self, session: Any, asked: Mapping[str, str | None], *, scope: str) -> str | None:
        """Return a token of the registry's token service; an anonymous one without a login."""
        realm = asked.get("realm") or ""
        if not may_be_told(realm, self.host):
            return None
        parameters = {"scope": scope, **({"service": asked["service"]} if asked.get("service") else {})}
        options = {"timeout": TOKEN_TIMEOUT_S, "allow_redirects": False}
        if self.credential and self.credential.refresh:
            answer = session.post(realm, data={**parameters, **_refresh_fields(self.credential)}, **options)
        else:
            answer = session.get(realm, params=parameters, headers=_basic(self.credential), **options)
        try:
            found = answer.json() if answer.status_code == 200 else {}
        except ValueError:
            return None
        return found.get("token") or found.get("access_token") if isinstance(found, dict) else None


def _refresh_fields(credential: Credential) -> dict[str, str]:
    """source: distribution@2.8 docs/spec/auth/oauth.md."""
    return {"grant_type": "refresh_token", "refresh_token": credential.secret, "client_id": "xsft"}


def _basic(credential: Credential | None) -> dict[str, str]:
    if credential is None or credential.refresh:
        return {}
    return {"Authorization": f"Basic {credential.basic}"}
