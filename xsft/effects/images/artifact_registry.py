"""Repositories of Artifact Registry, over its REST API: finds them, creates one if asked, and lists their images.
Changes and removes nothing.

source: artifactregistry.googleapis.com v1 REST reference: projects.locations.repositories (get, create, dockerImages
list) and projects.locations.operations (get).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from google.auth.exceptions import GoogleAuthError
from msgspec import Struct
from requests import RequestException

from xsft.effects.images.registry_http import MAX_BYTES, RegistryAnswer, patiently, send
from xsft.effects.machine import clock
from xsft.effects.machine.google_files import may_log_in
from xsft.effects.machine.google_login import google_credentials, google_session
from xsft.image.artifact_errors import (
    ArtifactRequest,
    about_project,
    explain_artifact_error,
    no_login,
    not_docker,
    timed_out,
)
from xsft.image.artifact_names import Repository

URL = "https://artifactregistry.googleapis.com"
BUDGET_S = 45.0
"""Time limit for one query, pauses included; and for a creation to finish."""
POLL_S = 1.0
DESCRIPTION = "Images of fine-tuning runs (xsft)"
PAGE = 1000
HTTP_OF_RPC = {3: 400, 5: 404, 7: 403, 8: 429, 16: 401}
"""HTTP status for the code of a failed operation. source: google.rpc.Code."""
ALREADY_EXISTS = 6


class ImageListed(Struct, frozen=True, kw_only=True):
    name: str
    """The name below the repository: `post-training`."""
    digest: str
    tags: tuple[str, ...]
    size: int
    """Bytes stored."""
    uploaded_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class ArtifactRegistry:
    """A client of Artifact Registry with one login."""

    session: Any = field(repr=False)
    """An authorised session of google-auth."""
    url: str = URL
    sleep: Callable[[float], None] = clock.pause

    def ensure(
        self, repository: Repository, *, create: bool, on_progress: Callable[[str], None] = lambda _: None
    ) -> Literal["found", "created"]:
        """Ensure that images can be pushed to the repository; with `create`, create it if it is missing.

        Raises EnvironmentMissing (repository-missing, artifact-registry-disabled), Unreachable (registry-forbidden with
        the missing role, no login, no answer), UsageError if it holds something other than images.
        """
        held = self.format_of(repository)
        if held:
            if held != "DOCKER":
                raise not_docker(repository.docker, held)
            return "found"
        asked = ArtifactRequest(permission="artifactregistry.repositories.create", repository=repository)
        if not create:
            raise explain_artifact_error(404, "", asked)
        on_progress(f"creating {repository.docker}")
        self._create(repository, asked)
        return "created"

    def format_of(self, repository: Repository) -> str | None:
        """Return its format, `DOCKER`, `PYTHON` …; None if there is no such repository. Raises as `ensure` does."""
        asked = ArtifactRequest(permission="artifactregistry.repositories.get", repository=repository)
        answer = self._asked("GET", repository.path, asked)
        if answer.status == 404 and not about_project(_google_message(answer)):
            return None
        return str(_good(answer, asked).get("format", ""))

    def images(self, repository: Repository, *, name: str | None = None) -> tuple[ImageListed, ...]:
        """Return the images, newest first; of one image if `name` is given."""
        wanted = (image for image in self._images_of(repository) if name in (None, image.name))
        return tuple(sorted(wanted, key=lambda image: image.uploaded_at, reverse=True))

    def _images_of(self, repository: Repository) -> Iterator[ImageListed]:
        asked = ArtifactRequest(permission="artifactregistry.dockerimages.list", repository=repository)
        token: str | None = ""
        while token is not None:
            more = {"pageToken": token} if token else {}
            answer = self._asked("GET", f"{repository.path}/dockerImages", asked, params={"pageSize": PAGE, **more})
            page = _good(answer, asked)
            yield from (_listed_image(found, repository) for found in page.get("dockerImages") or ())
            token = page.get("nextPageToken") or None

    def _create(self, repository: Repository, asked: ArtifactRequest) -> None:
        """Create the repository. If another user created it at the same moment, that counts as success."""
        body = {"format": "DOCKER", "description": DESCRIPTION}
        answer = self._asked(
            "POST", f"{repository.parent}/repositories", asked, params={"repositoryId": repository.name}, json=body
        )
        if answer.status == 409:
            return
        operation, waited_s = _good(answer, asked), 0.0
        while not operation.get("done"):
            if waited_s >= BUDGET_S:
                raise timed_out(f"timed out after {BUDGET_S:g} s creating the repository", asked)
            self.sleep(POLL_S)
            waited_s += POLL_S
            operation = _good(self._asked("GET", str(operation.get("name")), asked), asked)
        failed = operation.get("error") or {}
        if failed and failed.get("code") != ALREADY_EXISTS:
            raise explain_artifact_error(HTTP_OF_RPC.get(failed.get("code", 0)), str(failed.get("message", "")), asked)

    def _asked(self, method: str, path: str, asked: ArtifactRequest, **options: Any) -> RegistryAnswer:
        options = {"stream": False, **options}  # AuthorizedSession@2.62 leaves a streamed 401 open
        try:
            return patiently(
                lambda: send(self.session, method, f"{self.url}/v1/{path}", **options),
                sleep=self.sleep,
                budget_s=BUDGET_S,
            )
        except GoogleAuthError as failed:
            raise no_login(str(failed)) from None
        except RequestException as failed:
            raise timed_out(str(failed), asked) from None


def connect_artifact_registry(env: Mapping[str, str]) -> ArtifactRegistry:
    """Connect with the Application Default Credentials. Raises Unreachable, registry-login-missing."""
    if not may_log_in(env):
        raise no_login("no Google login found")
    try:
        return ArtifactRegistry(session=google_session(google_credentials()))
    except GoogleAuthError as failed:
        raise no_login(str(failed)) from None


def _good(answer: RegistryAnswer, asked: ArtifactRequest) -> dict[str, Any]:
    """Return the document of an answer that is not a failure."""
    if answer.status != 200:
        raise explain_artifact_error(answer.status, _google_message(answer), asked)
    found = _parse_object(answer.content) if len(answer.content) <= MAX_BYTES else None
    if found is None:
        raise timed_out("its answer is not a JSON object; check for a proxy in between", asked)
    return found


def _google_message(answer: RegistryAnswer) -> str:
    """Return Google's message and its reason, e.g. SERVICE_DISABLED. source: google.rpc.Status,
    google.rpc.ErrorInfo.
    """
    failed = (_parse_object(answer.content) or {}).get("error")
    if not isinstance(failed, dict):
        return f"HTTP {answer.status}"
    details = (one for one in failed.get("details") or () if isinstance(one, dict))
    reason = next((str(one["reason"]) for one in details if one.get("reason")), "")
    return f"{failed.get('message', '')}{f' ({reason})' if reason else ''}"


def _parse_object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _listed_image(found: Mapping[str, Any], repository: Repository) -> ImageListed:
    name, _, digest = str(found.get("uri", "")).partition("@")
    return ImageListed(
        name=name.removeprefix(f"{repository.docker}/"),
        digest=digest,
        tags=tuple(sorted(found.get("tags") or ())),
        size=int(found.get("imageSizeBytes") or 0),
        uploaded_at=_to_second(str(found.get("uploadTime", ""))),
    )


def _to_second(time: str) -> str:
    """Return the time in whole seconds: `2026-11-21T12:00:00.123456Z` -> `2026-11-21T12:00:00Z`."""
    return f"{time.partition('.')[0].removesuffix('Z')}Z" if time else ""
