"""The user's Google login, the Application Default Credentials, and requests that use it.

Imported only when a login is used: google-auth over requests takes 0.2 CPU-s to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import google.auth
from google.auth.transport.requests import AuthorizedSession, Request

from xsft.base.secrets import hold_secret
from xsft.machine.http_session import BoundedAdapter, Session, TokenSession

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
REFRESH_TRIES = 3
"""Tries to refresh a token, if the connection breaks. source: google-auth 2.62 transport/requests.py,
AuthorizedSession.
"""


def google_credentials(*, scopes: Sequence[str] = (SCOPE,)) -> Any:
    """Return google.auth.credentials.Credentials. Raises google.auth's DefaultCredentialsError without a login."""
    return google.auth.default(scopes=scopes)[0]


def google_token(credentials: Any) -> str:
    """Return an access token, which is valid for an hour. Raises google.auth's GoogleAuthError."""
    with _for_tokens() as session:
        credentials.refresh(Request(session))
    return hold_secret(str(credentials.token))


def google_session(credentials: Any) -> Any:
    """Return a google.auth AuthorizedSession that uses these credentials and no others."""

    class GoogleSession(Session, AuthorizedSession):
        """An auth object that keeps the header google-auth sets."""

    session = GoogleSession(credentials, auth_request=Request(_for_tokens()))
    session.configure_mtls_channel()  # type: ignore[no-untyped-call]
    return session


def _for_tokens() -> Any:
    """Return a session with which google-auth refreshes a token."""
    session = TokenSession()
    session.mount("https://", BoundedAdapter(max_retries=REFRESH_TRIES))
    return session
