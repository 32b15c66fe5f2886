"""One table of what engines, builds and registries say: the error that it means, and what to do next. Pure; no command
is run here.

source: moby@20.10 distribution/errors.go, client/errors.go; distribution@2.8 registry/api/errcode/register.go;
pip@23.2, uv@0.13, buildkit@0.8; Artifact Registry documentation, "Access control with IAM". Examples of each:
tests/image/docker_words.py, tests/image/build_words.txt.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, Forbidden, RepositoryMissing, Unreachable, UsageError, XsftError
from xsft.base.network_words import plain_words
from xsft.base.secrets import redact
from xsft.image.reference import is_google

MAX_QUOTE = 300
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
NO_CLIENT = "no docker command on PATH"
"""Words that a caller adds if that is so."""

FailureStage = Literal["connect", "build", "transfer"]


class FailedRequest(Struct, frozen=True, kw_only=True):
    """What was asked of an engine, a build or a registry, for messages."""

    what: str
    """The request, e.g. `push us-docker.pkg.dev/p/r/i:code-1`."""
    stage: FailureStage = "transfer"
    host: str = ""
    """The registry's host, or the engine's address."""
    repository: str = ""
    pushes: bool = False
    anonymous: bool = False
    """Whether it was sent without a login."""

    @property
    def google(self) -> bool:
        return is_google(self.host)


class FailureRule(Struct, frozen=True, kw_only=True):
    """Words, and the error that they mean in some stage. The first rule that fits counts."""

    pattern: str
    stage: FailureStage = "transfer"
    id: str
    message: str = "Could not {what}: {said}"
    fix: str
    error: type[XsftError] = EnvironmentMissing
    google: bool | None = None
    """Only for Google's registries; None for all. So with the next two."""
    pushes: bool | None = None
    anonymous: bool | None = None


_DNS = (
    r"no such host|name resolution|server misbehaving|temporary failure in name|could not (?:be )?resolve|"
    r"name or service not"
)
_UNAUTHORIZED = r"\b401\b|unauthorized|no basic auth credentials|authentication required|incorrect username or password"
_DENIED = r"\b403\b|\bdenied\b|forbidden"
_NAME_UNKNOWN = r"name[_ ]unknown|repository name not known|repository .*not found|repository does not exist"
_NOT_FOUND = r"manifest unknown|not found|no such image|\b404\b"
_CUT = (
    r"\beof\b|connection reset|broken pipe|timeout|timed out|connection refused|network is unreachable|"
    r"no route to host|connection aborted|use of closed|tls handshake|blob upload (?:unknown|invalid)|digest invalid|"
    r"digest did not match|connection broken|stream error|incomplete answer|certificate|proxy"
)
_INDEX_UNREACHABLE = (
    r"temporary failure (?:in name resolution|resolving)|name or service not known|network is unreachable|"
    r"connection (?:refused|timed out|reset)|newconnectionerror|could not resolve|read timed out|max retries exceeded|"
    r"dns error|operation timed out|proxyerror|no route to host|http status server error|\b5\d\d server error"
)
_INDEX_LOGIN = (
    r"\b401 error, credentials not correct|lack of valid authentication credentials|returned a 403 forbidden|"
    r"_prompt_for_password|\b401 unauthorized|\b403 forbidden|\b40[13] client error"
)
"""Messages of pip (which prompts for a password when pip.conf has none), uv and urllib."""
_GOOGLE_WORDS = {
    "create": "Create it: xsft image push --create, or gcloud artifacts repositories create NAME "
    "--repository-format=docker --location=LOCATION --project=PROJECT.",
    "log_in": "gcloud auth configure-docker {host}, or gcloud auth application-default login (in CI: a service "
    "account, GOOGLE_APPLICATION_CREDENTIALS)",
    "writer": "roles/artifactregistry.writer",
    "reader": "roles/artifactregistry.reader",
}
_OTHER_WORDS = {
    "create": "Correct its name, or create it in that registry.",
    "log_in": "docker login {host}",
    "writer": "permission to push",
    "reader": "permission to read",
}
_MISSING = "Repository {repository} was not found: {said}"

RULES: tuple[FailureRule, ...] = (
    # The engine does not answer.
    FailureRule(
        stage="connect",
        pattern=r"permission denied|errno 13\b",
        id="docker-permission",
        message="You may not use the Docker engine at {host}.",
        fix=PERMIT,
    ),
    FailureRule(
        stage="connect",
        pattern=rf"(?:no such file|errno 2\b).*{NO_CLIENT}",
        id="docker-missing",
        message="Docker is not installed: no docker command on PATH, and no engine at {host}.",
        fix=INSTALL,
    ),
    FailureRule(
        stage="connect",
        pattern=r"no such file|connection refused|cannot connect to the docker daemon|errno 2\b|errno 111\b",
        id="docker-not-running",
        message="The Docker engine at {host} does not answer.",
        fix=START,
    ),
    FailureRule(
        stage="connect",
        pattern="",
        id="docker-not-running",
        message="The Docker engine at {host} cannot be used: {said}",
        fix=START,
    ),
    # A step of a Dockerfile fails. Certain causes precede possible consequences.
    FailureRule(
        stage="build",
        pattern=r"(?:^|[\s:/\"])python3?\"?: (?:command not|not|executable file not) found|no module named pip",
        id="base-without-python",
        fix="Use a base image with CPython 3.12 and pip as `python3`, e.g. python:3.12-slim (image base, BASE_IMAGE).",
        error=UsageError,
    ),
    FailureRule(
        stage="build",
        pattern=r"do not match the hashes|hash(?:es)? (?:mis)?match|hashes are required",
        id="build-hash-mismatch",
        fix="The index serves files whose hashes differ from the lock: ask its administrator, or lock again and "
        "read the diff.",
    ),
    FailureRule(  # the index answered, so earlier network errors in the output no longer matter
        stage="build",
        pattern=r"\(from versions: (?!none)|there is no version of",
        id="build-package-missing",
        fix="The index has other versions: check that it has this one for the base image's Python, or lock again.",
    ),
    FailureRule(
        stage="build",
        pattern=r"no space left on device|disk quota exceeded|errno 28\b",
        id="disk-full",
        fix=FREE,
    ),
    FailureRule(
        stage="build",
        pattern=r"certificate verify failed|self[- ]signed certificate|sslerror|invalid peer certificate",
        id="build-certificate",
        fix="Your network's certificate authority is not in the base image: use a base image that has it.",
    ),
    FailureRule(
        stage="build",
        pattern=_INDEX_LOGIN,
        id="build-index-login",
        fix="The package index rejected the login: correct the user and password in the --pip-config file.",
    ),
    FailureRule(
        stage="build",
        pattern=_INDEX_UNREACHABLE,
        id="build-no-network",
        fix="Can the engine's machine reach the package index, and is the index up? Behind a mirror, give its address "
        "in a pip.conf (--pip-config).",
    ),
    FailureRule(
        stage="build",
        pattern=r"is not a trusted or secure host",
        id="build-index-untrusted",
        fix="pip refuses an index over http: use its https address in the --pip-config file, or add `trusted-host "
        "= HOST` there.",
    ),
    FailureRule(  # after network and login errors: pip prints this for any index that did not answer
        stage="build",
        pattern=r"no matching distribution found|could not find a version that satisfies|"
        r"not found in the package registry",
        id="build-package-missing",
        fix="The index lists no version: check the address and login in the --pip-config file, and that the index "
        "has this package.",
    ),
    FailureRule(
        stage="build",
        pattern=r"exec format error",
        id="build-platform",
        fix="The base image is for another processor; TPU hosts are linux/amd64.",
    ),
    FailureRule(
        stage="build",
        pattern=r"\bkilled\b|exit code: 137",
        id="build-out-of-memory",
        fix="Give the engine more memory (Docker Desktop: Resources).",
    ),
    FailureRule(
        stage="build",
        pattern=r"dockerfile parse error|unknown instruction|unknown flag",
        id="dockerfile-invalid",
        fix="Correct the Dockerfile.",
        error=UsageError,
    ),
    FailureRule(
        stage="build",
        pattern=r"failed to compute cache key|failed to calculate checksum",
        id="context-incomplete",
        fix="The Dockerfile copies a file that is not in its context.",
        error=UsageError,
    ),
    # An engine or a registry refuses. A registry's 403 says "denied", and its 429 may say "denied" too.
    FailureRule(
        pattern=r"\b429\b|toomanyrequests|too many requests|rate limit|quota exceeded for quota metric",
        id="registry-rate-limited",
        message="{host} rejected the request: too many requests: {said}",
        fix="Try again in a few minutes; layers already pushed are kept. A login raises the limit of public "
        "registries.",
        error=Unreachable,
    ),
    FailureRule(
        pattern=r"no space left on device|disk quota exceeded|errno 28\b|not enough space|disk full",
        id="disk-full",
        message="The disk is full: could not {what}: {said}",
        fix=FREE,
    ),
    FailureRule(
        google=True,
        pattern=r"has not been used in project|it is disabled|SERVICE_DISABLED",
        id="artifact-registry-disabled",
        message="Artifact Registry is not enabled for {repository}: {said}",
        fix="Enable it: gcloud services enable artifactregistry.googleapis.com --project=PROJECT.",
    ),
    FailureRule(
        google=True,
        pattern=r"CONSUMER_INVALID|resource project|(?<![\w/-])project(?![\w/-]).*not found",
        id="project-missing",
        message="The project of {repository} was not found, or you may not read it: {said}",
        fix="Correct the project in the registry's name; `gcloud projects list` lists yours.",
    ),
    FailureRule(
        google=True,
        pattern=r"'(?:projects/[^/']+/)?locations/[^/']+' .*may not exist|\b400\b",
        id="artifact-repository",
        message="Artifact Registry rejected {repository}: {said}",
        fix="Check location (gcloud artifacts locations list), project and repository in the name.",
        error=UsageError,
    ),
    FailureRule(
        pattern=_NAME_UNKNOWN,
        id="repository-missing",
        message=_MISSING,
        fix="{create}",
        error=RepositoryMissing,
    ),
    FailureRule(
        anonymous=True,
        pattern=_UNAUTHORIZED,
        id="registry-login-missing",
        message="You are not logged in to {host}.",
        fix="Log in: {log_in}.",
        error=Unreachable,
    ),
    FailureRule(
        pattern=_UNAUTHORIZED,
        id="registry-login-refused",
        message="{host} rejected the login: {said}",
        fix="Log in again: {log_in}.",
        error=Unreachable,
    ),
    FailureRule(  # registries refuse a pull without a login in this way, too
        anonymous=True,
        pushes=False,
        pattern=_DENIED,
        id="registry-login-missing",
        message="You are not logged in to {host}.",
        fix="Log in: {log_in}.",
        error=Unreachable,
    ),
    FailureRule(
        google=True,
        pattern=rf"repositories\.create.*(?:{_DENIED})|(?:{_DENIED}).*repositories\.create",
        id="registry-forbidden",
        message="You may not create {repository}: {said}",
        fix="Ask for roles/artifactregistry.admin on the project, or for the repository.",
        error=Forbidden,
    ),
    FailureRule(
        pushes=True,
        pattern=rf"{_DENIED}|\b405\b",
        id="registry-forbidden",
        message="You may not push to {repository}: {said}",
        fix="Ask for {writer} on it, or --create it if it does not exist. `xsft image push` cannot grant permissions.",
        error=Forbidden,
    ),
    FailureRule(
        pattern=_DENIED,
        id="registry-forbidden",
        message="You may not read {repository}: {said}",
        fix="Ask for {reader} on it. `xsft image push` cannot grant permissions.",
        error=Forbidden,
    ),
    FailureRule(
        pattern=_DNS,
        id="registry-unreachable",
        fix="Check network, DNS and proxy, here and on the engine's machine; both must reach {host}.",
        error=Unreachable,
    ),
    FailureRule(
        pushes=True,
        pattern=_NOT_FOUND,
        id="repository-missing",
        message=_MISSING,
        fix="{create}",
        error=RepositoryMissing,
    ),
    FailureRule(
        pattern=_NOT_FOUND,
        id="image-absent",
        fix="Check the reference, or push the image first.",
    ),
    FailureRule(
        pattern=r"(?P<status>\b50[0-4]\b)|internal server error|bad gateway|service unavailable|gateway timeout",
        id="registry-unreachable",
        message="{host} answers HTTP {status}: could not {what}: {said}",
        fix="Try again later, or ask the registry's administrator; layers already transferred are kept.",
        error=Unreachable,
    ),
    FailureRule(
        pattern=_CUT,
        id="registry-unreachable",
        fix="Try again; layers already transferred are kept.",
        error=Unreachable,
    ),
    FailureRule(
        pattern="",
        id="docker-failed",
        fix="`docker info` shows the engine's state; the message above is Docker's or the registry's.",
    ),
)


def explain_failure(text: str, request: FailedRequest) -> XsftError:
    """Return the error for a message of the engine, of BuildKit or of a registry."""
    for rule in RULES:
        conditions = ((rule.google, request.google), (rule.pushes, request.pushes), (rule.anonymous, request.anonymous))
        if rule.stage != request.stage or any(want is not None and want != has for want, has in conditions):
            continue
        if match := re.search(rule.pattern, text, re.IGNORECASE | re.MULTILINE):
            break
    else:  # only of a build: the other stages have a rule for all words
        lines = [line for line in text.splitlines() if line.strip()]
        last = f": {quote(lines[-1])}" if lines else "."
        fix = "The last lines above are the step's own; correct what they name and build again: what succeeded is kept."
        return EnvironmentMissing(f"Could not {request.what}{last}", fix=fix, id="build-failed")
    if request.stage == "build":  # one line: the others stand above, as the step printed them
        begin = text.rfind("\n", 0, match.start() + 1) + 1
        text = text[begin:].partition("\n")[0]
    words = {
        "what": request.what,
        "said": quote(text),
        "host": request.host or "the registry",
        "repository": request.repository or request.host,
        "status": match.groupdict().get("status") or "5xx",
    }
    phrases = _GOOGLE_WORDS if request.google else _OTHER_WORDS
    words |= {name: phrase.format(**words) for name, phrase in phrases.items()}
    return rule.error(rule.message.format(**words), fix=rule.fix.format(**words), id=rule.id)


def quote(text: str) -> str:
    """Shorten an engine's or registry's message, and remove tokens and internal details of the library."""
    return redact(plain_words(" ".join(text.split())))[:MAX_QUOTE]
