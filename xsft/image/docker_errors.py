"""Map errors of the Docker engine to xsft errors with a command that helps. Pure; no command is run here.

The messages are those of the engine, of BuildKit and of registries as the engine passes them on. source: moby@20.10
distribution/errors.go, client/errors.go; the errors of distribution@2.8 registry/api/errcode/register.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, RepositoryMissing, Unreachable, XsftError
from xsft.base.network_words import plain_words
from xsft.base.secrets import redact

MAX_WORDS = 300
"""Longest quotation of an engine's or registry's message, in characters."""

INSTALL = (
    "Install Docker (https://docs.docker.com/engine/install), or use an engine elsewhere: DOCKER_HOST=ssh://USER@HOST."
)
START = "Start it (sudo systemctl start docker, or Docker Desktop); `docker version` shows whether it answers."
PERMIT = "Add yourself to the docker group: sudo usermod -aG docker $USER, then log in again (or `newgrp docker`)."
FREE = (
    "`docker system df` shows the usage; `docker builder prune` frees the build cache, `docker image prune` "
    "unnamed images. xsft removes nothing."
)
LOG_IN_GOOGLE = (
    "Log in: gcloud auth application-default login (in CI: a service account, GOOGLE_APPLICATION_CREDENTIALS)."
)

_NOT_THERE = r"no such file or directory|connection refused|cannot connect to the docker daemon|errno 2\b|errno 111\b"
_PERMISSION = r"permission denied|errno 13\b"
_FULL = r"no space left on device|disk quota exceeded|errno 28\b|not enough space|disk full"
_DNS = (
    r"no such host|name resolution|server misbehaving|temporary failure in name|could not resolve|name or service not"
)
_LIMIT = r"\b429\b|toomanyrequests|too many requests|rate limit|quota exceeded for quota metric"
_UNAUTHORIZED = r"\b401\b|unauthorized|no basic auth credentials|authentication required|incorrect username or password"
_DENIED = r"\b403\b|\bdenied\b|forbidden"
_NAME_UNKNOWN = r"name[_ ]unknown|repository name not known|repository .*not found|repository does not exist"
_NOT_FOUND = r"manifest unknown|not found|no such image|\b404\b"
_SERVER = r"\b50[0-4]\b|internal server error|bad gateway|service unavailable|gateway timeout"
_CUT = (
    r"\beof\b|connection reset|broken pipe|timeout|timed out|connection refused|network is unreachable|"
    r"no route to host|connection aborted|use of closed|tls handshake|blob upload (?:unknown|invalid)|digest invalid|"
    r"digest did not match|connection broken|stream error"
)


class DockerRequest(Struct, frozen=True, kw_only=True):
    """The request that Docker or a registry refused, for messages."""

    what: str
    """The request, e.g. `push us-docker.pkg.dev/p/r/i:code-1`."""
    host: str = ""
    """The registry's host; empty when only the engine was involved."""
    repository: str = ""
    google: bool = False
    pushes: bool = False
    anonymous: bool = False
    """Whether it was sent without a login."""


def explain_docker_error(said: str, request: DockerRequest) -> XsftError:
    """Return the error for a message of the engine, of BuildKit or of a registry."""
    for pattern, make in _CASES:
        if re.search(pattern, said, re.IGNORECASE):
            return make(shorten_message(said), request)
    return EnvironmentMissing(
        f"Could not {request.what}: {shorten_message(said)}",
        fix="`docker info` shows the engine's state; the message above is Docker's.",
        id="docker-failed",
    )


def is_passing(said: str) -> bool:
    """Return whether a retry may help: a server error or a lost connection, not a refusal."""
    if re.search(_FULL, said, re.IGNORECASE) and not re.search(_SERVER, said, re.IGNORECASE):
        return False
    if re.search(rf"{_LIMIT}|{_SERVER}", said, re.IGNORECASE):
        return True
    refused = re.search(rf"{_UNAUTHORIZED}|{_DENIED}|{_NAME_UNKNOWN}|{_DNS}", said, re.IGNORECASE)
    return refused is None and re.search(_CUT, said, re.IGNORECASE) is not None


def is_limited(said: str) -> bool:
    """Return whether the registry limits the request rate."""
    return re.search(_LIMIT, said, re.IGNORECASE) is not None


def no_engine(said: str, *, host: str, client: str | None) -> EnvironmentMissing:
    """Return why the engine at `host` cannot be used. `client`: the docker command on PATH, None if there is none."""
    if re.search(_PERMISSION, said, re.IGNORECASE):
        return EnvironmentMissing(f"You may not use the Docker engine at {host}.", fix=PERMIT, id="docker-permission")
    if client is None and re.search(r"no such file|errno 2\b", said, re.IGNORECASE):
        return EnvironmentMissing(
            f"Docker is not installed: no docker command on PATH, and no engine at {host}.",
            fix=INSTALL,
            id="docker-missing",
        )
    if re.search(_NOT_THERE, said, re.IGNORECASE):
        return EnvironmentMissing(f"The Docker engine at {host} does not answer.", fix=START, id="docker-not-running")
    return EnvironmentMissing(
        f"The Docker engine at {host} cannot be used: {shorten_message(said)}", fix=START, id="docker-not-running"
    )


def disk_full(said: str, request: DockerRequest) -> EnvironmentMissing:
    return EnvironmentMissing(f"The disk is full: could not {request.what}: {said}", fix=FREE, id="disk-full")


def login_missing(host: str, *, google: bool) -> Unreachable:
    fix = LOG_IN_GOOGLE if google else f"Log in: docker login {host}."
    return Unreachable(f"You are not logged in to {host}.", fix=fix, id="registry-login-missing")


def login_refused(said: str, request: DockerRequest) -> Unreachable:
    if request.anonymous:
        return login_missing(request.host, google=request.google)
    fix = LOG_IN_GOOGLE if request.google else f"Log in again: docker login {request.host}."
    return Unreachable(
        f"{request.host or 'The registry'} rejected the login: {said}", fix=fix, id="registry-login-refused"
    )


def denied_error(said: str, request: DockerRequest) -> Unreachable:
    """Return the error for a user without permission; registries also refuse a pull without a login in this way."""
    if request.anonymous and not request.pushes:
        return login_missing(request.host, google=request.google)
    role = "roles/artifactregistry.writer" if request.pushes else "roles/artifactregistry.reader"
    right = "push to" if request.pushes else "read"
    fix = f"Ask for {role} on {request.repository}." if request.google else f"Ask for permission to {right} it."
    return Unreachable(
        f"You may not {right} {request.repository or request.host}: {said}",
        fix=f"{fix} `xsft image push` cannot grant permissions.",
        id="registry-forbidden",
    )


def repository_missing(said: str, request: DockerRequest) -> RepositoryMissing:
    create = (
        "Create it: xsft image push --create, or gcloud artifacts repositories create NAME "
        "--repository-format=docker --location=LOCATION --project=PROJECT."
    )
    return RepositoryMissing(
        f"Repository {request.repository} was not found: {said}",
        fix=create if request.google else "Correct its name, or create it in that registry.",
    )


def not_found(said: str, request: DockerRequest) -> XsftError:
    if request.google and request.pushes:
        return repository_missing(said, request)
    return EnvironmentMissing(
        f"Could not {request.what}: {said}", fix="Check the reference, or push the image first.", id="image-absent"
    )


def rate_limit_error(said: str, request: DockerRequest) -> Unreachable:
    return Unreachable(
        f"{request.host or 'The registry'} rejected the request: too many requests: {said}",
        fix="Try again in a few minutes; layers already pushed are kept. A login raises the limit of public "
        "registries.",
        id="registry-rate-limited",
    )


def no_network(said: str, request: DockerRequest) -> Unreachable:
    return Unreachable(
        f"Could not {request.what}: {said}",
        fix=f"Check network, DNS and proxy, here and on the engine's machine; both must reach {request.host or 'it'}?",
        id="registry-unreachable",
    )


def broken_off(said: str, request: DockerRequest) -> Unreachable:
    return Unreachable(
        f"Could not {request.what}: {said}",
        fix="Try again; layers already transferred are kept.",
        id="registry-unreachable",
    )


def shorten_message(said: str) -> str:
    """Shorten an engine's or registry's message, and remove tokens and internal details of the library."""
    return redact(plain_words(" ".join(said.split())))[:MAX_WORDS]


_CASES: tuple[tuple[str, Callable[[str, DockerRequest], XsftError]], ...] = (
    (_LIMIT, rate_limit_error),
    (_FULL, disk_full),
    (_NAME_UNKNOWN, repository_missing),
    (_UNAUTHORIZED, login_refused),
    (_DENIED, denied_error),
    (_DNS, no_network),
    (_NOT_FOUND, not_found),
    (_SERVER, broken_off),
    (_CUT, broken_off),
)
"""Patterns and their errors, in order: a registry's 403 says "denied", and its 429 may say "denied" too."""
