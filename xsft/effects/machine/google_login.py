"""Google's login of this user, the Application Default Credentials, and what is asked with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
DMI_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""Says `Google Compute Engine` on its machines; source: google-auth auth/compute_engine/_metadata.py."""
REFRESH_TRIES = 3
"""Of a token, where the connection breaks. source: google-auth 2.62 transport/requests.py, AuthorizedSession."""


def may_log_in(env: Mapping[str, str], *, product: Path = DMI_PRODUCT) -> bool:
    """Whether google.auth.default could find a login; source: google-auth auth/_default.py and _cloud_sdk.py.

    Asked first: it saves an import of half a second, and seconds of search for a metadata server.
    """
    named = ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "GCE_METADATA_ROOT")
    if any(env.get(name) for name in named):
        return True
    folder = Path(env.get("CLOUDSDK_CONFIG") or Path(env.get("HOME", "/")) / ".config" / "gcloud")
    return (folder / "application_default_credentials.json").exists() or _on_google_machine(product)


def google_credentials(*, scopes: Sequence[str] = (SCOPE,)) -> Any:
    """google.auth.credentials.Credentials. Raises google.auth's DefaultCredentialsError where nobody is logged in."""
    import google.auth

    return google.auth.default(scopes=scopes)[0]


def google_token(credentials: Any) -> str:
    """An access token, which lives for an hour. Raises google.auth's GoogleAuthError."""
    from google.auth.transport.requests import Request

    with _for_tokens() as session:
        credentials.refresh(Request(session))
    return str(credentials.token)


def google_session(credentials: Any) -> Any:
    """A google.auth AuthorizedSession of those credentials, and of no others."""
    from google.auth.transport.requests import AuthorizedSession, Request

    from xsft.effects.machine.http_session import Session

    class Authorized(Session, AuthorizedSession):
        """The header that google-auth sets stays."""

    made = Authorized(credentials, auth_request=Request(_for_tokens()))  # type: ignore[no-untyped-call]
    made.configure_mtls_channel()  # type: ignore[no-untyped-call]
    return made


def _for_tokens() -> Any:
    """A session by which google-auth renews a token."""
    from requests.adapters import HTTPAdapter

    from xsft.effects.machine.http_session import Session

    session = Session()
    session.mount("https://", HTTPAdapter(max_retries=REFRESH_TRIES))
    return session


def _on_google_machine(product: Path) -> bool:
    try:
        return product.read_text(encoding="utf-8").startswith("Google")
    except (OSError, ValueError):
        return False
