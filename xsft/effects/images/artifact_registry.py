"""Repositories of Artifact Registry, by Google's own client over REST: finds them, creates one if asked, and lists
their images. Changes and removes nothing.

Imported only when such a repository is used: the client takes 0.4 CPU-s to import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

from google.api_core import exceptions
from google.api_core.future.polling import DEFAULT_POLLING
from google.api_core.operation import Operation
from google.api_core.retry import Retry
from google.auth.exceptions import GoogleAuthError
from google.cloud.artifactregistry_v1 import ArtifactRegistryClient, DockerImage, types
from google.cloud.artifactregistry_v1.services.artifact_registry.transports import ArtifactRegistryRestTransport
from google.protobuf.json_format import ParseError
from msgspec import Struct
from requests import exceptions as http

from xsft.base.errors import XsftError
from xsft.effects.images.registry_http import PAUSES_S, UNANSWERED_TRIES
from xsft.image.artifact_errors import (
    ArtifactRequest,
    about_project,
    explain_artifact_error,
    no_login,
    not_docker,
    timed_out,
)
from xsft.image.artifact_names import Repository
from xsft.machine.clock import pause
from xsft.machine.google_files import may_log_in
from xsft.machine.google_login import google_credentials, google_session
from xsft.machine.retries import Retries, retry_after_s

T = TypeVar("T")
HOST = "artifactregistry.googleapis.com"
TIMEOUT_S = 10.0
"""Time limit for one answer."""
DESCRIPTION = "Images of fine-tuning runs (xsft)"
PAGE = 1000
PATIENCE_S = sum(PAUSES_S)
"""Maximum sum of the pauses of one query; after this time no further try begins."""
POLLING = DEFAULT_POLLING.with_timeout(45.0)
"""Pauses between the polls of a creation, and its time limit."""
NOT_GOOGLE = "the response is not Artifact Registry's JSON; check for a proxy in between"
NOT_GOOGLE_ERRORS = (ParseError, ValueError, AttributeError, TypeError, RecursionError)
"""Errors that the client raises for such an answer. source: protobuf@7.36 json_format.py; api_core@2.44 exceptions.py,
format_http_response_error (an `error` that is not an object).
"""


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

    client: ArtifactRegistryClient = field(repr=False)
    sleep: Callable[[float], None] = pause
    polling: Retry = field(default=POLLING, repr=False)

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
        with _explain_errors(asked):
            self._create(repository, asked)
        return "created"

    def format_of(self, repository: Repository) -> str | None:
        """Return its format, `DOCKER`, `PYTHON` …; None if there is no such repository. Raises as `ensure` does."""
        asked = ArtifactRequest(permission="artifactregistry.repositories.get", repository=repository)
        with _explain_errors(asked):
            try:
                found = self._ask(partial(self.client.get_repository, name=repository.path))
            except exceptions.NotFound as missing:
                if about_project(_google_message(missing)):
                    raise
                return None
        # a format newer than the client remains a number; an answer without one describes no repository
        held = types.Repository.to_dict(found, use_integers_for_enums=False)["format_"]
        if held == "FORMAT_UNSPECIFIED":
            raise timed_out(NOT_GOOGLE, asked)
        return str(held)

    def images(self, repository: Repository, *, name: str | None = None) -> tuple[ImageListed, ...]:
        """Return the images, newest first; of one image if `name` is given."""
        with _explain_errors(ArtifactRequest(permission="artifactregistry.dockerimages.list", repository=repository)):
            request = {"parent": repository.path, "page_size": PAGE}
            found = self._ask(lambda **options: list(self.client.list_docker_images(request=request, **options)))
            listed = [_listed_image(image, repository) for image in found]
        wanted = (image for image in listed if name in (None, image.name))
        return tuple(sorted(wanted, key=lambda image: image.uploaded_at, reverse=True))

    def _create(self, repository: Repository, asked: ArtifactRequest) -> None:
        """Create the repository. If another user created one at the same moment, that counts as success."""
        request = {
            "parent": repository.parent,
            "repository_id": repository.name,
            "repository": {"format_": "DOCKER", "description": DESCRIPTION},
        }
        try:
            begun = self._ask(partial(self.client.create_repository, request=request))
            self._wait_until_done(begun.operation)
        except TimeoutError:
            raise timed_out(f"timed out after {self.polling.timeout:g} s creating the repository", asked) from None
        except (exceptions.Conflict, ParseError):  # api_core@2.44 refuses a result with a field newer than the client
            if self.format_of(repository) != "DOCKER":
                raise

    def _wait_until_done(self, operation: Any) -> None:
        """Poll the operation by this client: the one that api_core@2.44 polls by has no time limit for an answer, and
        its session reads ~/.netrc.
        """
        refresh = partial(self._ask, partial(self.client.get_operation, {"name": operation.name}))
        future = Operation(operation, refresh, None, types.Repository)  # type: ignore[no-untyped-call]
        future.result(polling=self.polling)  # type: ignore[no-untyped-call]

    def _ask(self, question: Callable[..., T]) -> T:
        """Return the answer, retried while the server is busy or the connection breaks."""
        retries = Retries(PAUSES_S, budget_s=PATIENCE_S, give_up_s=PATIENCE_S, sleep=self.sleep)
        while True:
            try:
                return question(retry=None, timeout=TIMEOUT_S)
            except (exceptions.TooManyRequests, exceptions.ServerError) as busy:
                if not retries.again(retry_after_s(busy.response.headers)):
                    raise
            except http.ConnectionError:
                if not retries.again(at_most=UNANSWERED_TRIES):
                    raise


class _Transport(ArtifactRegistryRestTransport):
    """REST with google_session, which sends no login but the given one. The client has no argument for a session.
    source: google-cloud-artifact-registry@1.23 transports/rest.py, ArtifactRegistryRestTransport.__init__.
    """

    def _prep_wrapped_messages(self, client_info: Any) -> None:
        self._session = google_session(self._credentials)
        super()._prep_wrapped_messages(client_info)  # type: ignore[no-untyped-call]


def connect_artifact_registry(env: Mapping[str, str]) -> ArtifactRegistry:
    """Connect with the Application Default Credentials. Raises Unreachable, registry-login-missing."""
    if not may_log_in(env):
        raise no_login("no Google login found")
    try:
        return ArtifactRegistry(client=artifact_registry_client(google_credentials()))
    except (GoogleAuthError, ValueError) as failed:  # ValueError: a GOOGLE_API_… variable has a value it cannot have
        raise no_login(str(failed)) from None


def artifact_registry_client(credentials: Any, *, host: str = HOST, scheme: str = "https") -> ArtifactRegistryClient:
    transport = _Transport(credentials=credentials, host=host, url_scheme=scheme)
    return ArtifactRegistryClient(transport=transport)


@contextmanager
def _explain_errors(asked: ArtifactRequest) -> Iterator[None]:
    """Raise what Google's client raises as an error that names the missing role or the next step."""
    try:
        yield
    except (exceptions.GoogleAPIError, GoogleAuthError, http.RequestException, *NOT_GOOGLE_ERRORS) as failed:
        raise _explain(failed, asked) from None


def _explain(failed: Exception, asked: ArtifactRequest) -> XsftError:
    match failed:
        case exceptions.GoogleAPICallError():
            return explain_artifact_error(failed.code, _google_message(failed), asked)
        case GoogleAuthError():
            return no_login(str(failed))
        case http.RequestException():
            return timed_out(str(failed), asked)
        case _:
            return timed_out(NOT_GOOGLE, asked)


def _google_message(failed: exceptions.GoogleAPICallError) -> str:
    """Return Google's message and its reason, e.g. SERVICE_DISABLED, without the request and without a proxy's page."""
    said = re.sub(r"^[A-Z]+ https?://\S+: ", "", failed.message)
    return (
        f"HTTP {failed.code}"
        if said.lstrip().startswith("<")
        else f"{said}{f' ({failed.reason})' if failed.reason else ''}"
    )


def _listed_image(found: DockerImage, repository: Repository) -> ImageListed:
    name, _, digest = found.uri.partition("@")
    return ImageListed(
        name=name.removeprefix(f"{repository.docker}/"),
        digest=digest,
        tags=tuple(sorted(found.tags)),
        size=found.image_size_bytes,
        uploaded_at=found.upload_time.strftime("%Y-%m-%dT%H:%M:%SZ") if found.upload_time else "",
    )
