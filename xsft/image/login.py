"""The user's login to a registry: from Docker's configuration (`docker login`, `gcloud auth configure-docker` and other
credential helpers), or of Google's Application Default Credentials. It is read, never written and never printed.

A repository is created in Artifact Registry only if the user asks for it. source: artifactregistry.googleapis.com v1
REST reference, projects.locations.repositories.create, operations.get.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from msgspec.json import Decoder
from requests import RequestException

from xsft.base.errors import Unreachable, UsageError
from xsft.base.lenient import mapping, parse_json, rows
from xsft.base.secrets import hold_secret
from xsft.image.failures import FailedRequest, explain_failure, quote
from xsft.image.reference import is_google, repository_of
from xsft.machine.bounded import ODD_SHAPE
from xsft.machine.clock import pause
from xsft.machine.http_session import Session
from xsft.machine.paths import may_log_in
from xsft.machine.regular import read_text

GOOGLE_USER = "oauth2accesstoken"
"""User name for an access token. source: Artifact Registry documentation, "Access token"."""

GoogleToken = Callable[[Mapping[str, str]], str | None]
API = "https://artifactregistry.googleapis.com/v1"
TIMEOUT_S = 10.0
POLLS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0)
"""Seconds before each question whether the repository is ready."""
DOCUMENT = Decoder(dict[str, Any])
DESCRIPTION = "Images of fine-tuning runs (xsft)"


@dataclass(frozen=True, kw_only=True)
class Login:
    """A login to a registry. Never printed."""

    user: str
    secret: str = field(repr=False)
    is_identity_token: bool = False
    """The secret is an OAuth2 refresh token (Docker's "identity token"): only a registry's token service accepts it."""

    def __post_init__(self) -> None:
        hold_secret(self.secret)

    @property
    def basic(self) -> dict[str, str]:
        """Return the header of HTTP's Basic scheme; empty for an identity token."""
        if self.is_identity_token:
            return {}
        pair = hold_secret(base64.b64encode(f"{self.user}:{self.secret}".encode()).decode())
        return {"Authorization": f"Basic {pair}"}

    @property
    def bearer(self) -> dict[str, str]:
        """Return the header to send at once: Google's registries accept an access token itself."""
        if self.user != GOOGLE_USER:
            return {}
        return {"Authorization": f"Bearer {self.secret}"}

    @property
    def for_docker(self) -> dict[str, str]:
        """Return the login as the Docker SDK takes it."""
        if self.is_identity_token:
            return {"identitytoken": self.secret}
        return {"username": self.user, "password": self.secret}


def google_access_token(env: Mapping[str, str]) -> str | None:
    """Return a token, or None without a login. Raises Unreachable if the login is not accepted."""
    if not may_log_in(env):
        return None
    from xsft.machine.google_login import google_credentials, google_token

    try:
        return google_token(google_credentials())
    except DefaultCredentialsError:
        return None
    except (GoogleAuthError, ValueError) as failed:  # ValueError: a GOOGLE_API_… variable has a value it cannot have
        raise Unreachable(
            f"Google rejected the login: {quote(str(failed))}",
            fix="Log in again: gcloud auth application-default login.",
            id="registry-login-refused",
        ) from None


def login_for(host: str, *, env: Mapping[str, str], token: GoogleToken = google_access_token) -> Login | None:
    """Return the login for a registry's host, or None: for Google's registries an access token, valid for an hour, of
    the user's Google login; without that, and for all others, the one that Docker has. Raises as `google_access_token`.
    """
    access_token = token(env) if is_google(host) else None
    if access_token:
        return Login(user=GOOGLE_USER, secret=access_token)
    return docker_login(host, env=env)


def docker_login(host: str, *, env: Mapping[str, str]) -> Login | None:
    """Return the login for `host` that the SDK finds in the user's Docker configuration, or None."""
    from docker import auth, errors

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # if a helper is not installed, the registry's refusal shows it
            logins = auth.load_config(config_dict=read_docker_config(env), credstore_env=dict(env))
            entry = logins.resolve_authconfig(host) or {}
    except (errors.DockerException, OSError, *ODD_SHAPE):
        # docker, too, has no login where a helper fails or the file is broken; the registry's refusal names the fix
        return None
    if entry.get("IdentityToken"):
        return Login(user="", secret=str(entry["IdentityToken"]), is_identity_token=True)
    # The SDK writes the names of an entry in two ways: of a helper, and of the file.
    fields = {name.lower(): str(text or "") for name, text in entry.items()}
    if not fields.get("password"):
        return None
    return Login(user=fields.get("username", ""), secret=fields["password"])


def read_docker_config(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the user's Docker configuration; empty if there is none or it is not Docker's. source: docker/cli@28
    cli/config/config.go.
    """
    folder = env.get("DOCKER_CONFIG") or Path(env.get("HOME") or Path.home()) / ".docker"
    try:
        return mapping(parse_json(read_text(Path(folder, "config.json"))))
    except (OSError, ValueError):
        return {}


def create_repository(
    registry: str,
    *,
    env: Mapping[str, str],
    say: Callable[[str], None],
    api: str = API,
    find_login: Callable[..., Login | None] = login_for,
    sleep: Callable[[float], None] = pause,
) -> None:
    """Create the repository of an Artifact Registry name. If another user created it at the same moment, that counts as
    success. Raises UsageError for any other registry, and what Google answers, explained.
    """
    repository = repository_of(registry)
    if repository is None:
        raise UsageError(
            f"{registry} is not in Artifact Registry: xsft cannot create its repository.",
            fix="Create it in that registry, and push without --create.",
            id="artifact-repository",
        )
    host = repository.docker.partition("/")[0]
    login = find_login(host, env=env)
    request = FailedRequest(
        what=f"create {repository.docker}",
        host=host,
        repository=repository.docker,
        pushes=True,
        anonymous=login is None,
    )

    ask = partial(_ask_google, api, login=login, request=request)
    say(f"creating {repository.docker}")
    operation = ask(
        "POST",
        f"{repository.parent}/repositories?repositoryId={repository.name}",
        json={"format": "DOCKER", "description": DESCRIPTION},
    )
    for pause_s in POLLS_S:
        if operation.get("done"):
            break
        sleep(pause_s)
        operation = ask("GET", str(operation.get("name")))
    if problem := operation.get("error"):
        raise explain_failure(str(problem.get("message")), request)
    if not operation.get("done"):
        raise explain_failure(f"timed out after {sum(POLLS_S):g} s creating the repository", request)


def _ask_google(
    api: str, method: str, path: str, *, login: Login | None, request: FailedRequest, **options: Any
) -> dict[str, Any]:
    """Ask with an access token, which `gcloud auth configure-docker` gives, too."""
    headers = {"Authorization": f"Bearer {login.secret}"} if login else {}
    try:
        with Session() as session:
            answer = session.request(method, f"{api}/{path}", headers=headers, timeout=TIMEOUT_S, **options)
        document: dict[str, Any] = DOCUMENT.decode(answer.content)
    except (RequestException, ValueError) as failed:
        raise explain_failure(f"connection broken: {failed}", request) from None
    if answer.status_code == 409:  # another user was faster
        return {"done": True}
    if answer.status_code >= 300:
        problem = mapping(document, "error")
        # a reason, SERVICE_DISABLED for example, tells more than the message
        reasons = [str(detail["reason"]) for detail in rows(problem.get("details")) if detail.get("reason")]
        message = " ".join((str(problem.get("message", "")), *reasons))
        raise explain_failure(f"HTTP {answer.status_code} {message}", request)
    return document
