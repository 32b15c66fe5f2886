"""Repositories of Artifact Registry, through Google's own client over REST: found, created where asked, their images
listed. Nothing is changed or removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

from xsft.effects.artifact_errors import Asked, about_project, explain, no_login, not_docker, timed_out
from xsft.effects.artifact_names import Repository
from xsft.effects.registry import SCOPE
from xsft.effects.storage import may_log_in

HOST = "artifactregistry.googleapis.com"
TIMEOUT_S = 15.0
"""For one answer."""
BUDGET_S = 45.0
"""For one question, tries again included; and for a creation to be done."""
DESCRIPTION = "Images of fine-tuning runs (xsft)"
PAGE = 1000


class RepositorySeen(Struct, frozen=True, kw_only=True):
    repository: Repository
    format: str
    """DOCKER, else images cannot lie there."""
    size: int
    """Bytes; Google counts them once a day."""
    immutable_tags: bool
    created_at: str
    """UTC, ISO 8601."""


class ImageListed(Struct, frozen=True, kw_only=True):
    name: str
    """Below the repository: `post-training`."""
    digest: str
    tags: tuple[str, ...]
    size: int
    """Bytes stored."""
    uploaded_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class ArtifactRegistry:
    """Asks with one login."""

    client: Any = field(repr=False)
    """google.cloud.artifactregistry_v1 ArtifactRegistryClient."""
    retry: Any = field(repr=False)

    def ensure(
        self, repository: Repository, *, create: bool, on_progress: Callable[[str], None] = lambda _: None
    ) -> Literal["found", "created"]:
        """See that images can be pushed there; with `create`, make it where it is missing.

        Raises EnvironmentMissing (repository-missing, artifact-registry-disabled), Unreachable (registry-forbidden with
        the role that is missing, no login, no answer), UsageError where it holds something else than images.
        """
        seen = self.describe(repository)
        if seen:
            if seen.format != "DOCKER":
                raise not_docker(repository.docker, seen.format)
            return "found"
        asked = Asked(permission="artifactregistry.repositories.create", repository=repository)
        if not create:
            raise explain(404, "", asked)
        on_progress(f"creating {repository.docker}")
        with _told(asked):
            self._create(repository)
        return "created"

    def describe(self, repository: Repository) -> RepositorySeen | None:
        """None where there is none. Raises as `ensure` does."""
        from google.api_core.exceptions import NotFound

        with _told(Asked(permission="artifactregistry.repositories.get", repository=repository)):
            try:
                found = self.client.get_repository(name=repository.path, retry=self.retry, timeout=TIMEOUT_S)
            except NotFound as missing:
                if about_project(_words(missing)):
                    raise
                return None
        return RepositorySeen(
            repository=repository,
            format=found.format_.name,
            size=int(found.size_bytes),
            immutable_tags=bool(found.docker_config.immutable_tags),
            created_at=_iso(found.create_time),
        )

    def images(self, repository: Repository, *, name: str | None = None) -> tuple[ImageListed, ...]:
        """Newest first; of one image where `name` is given."""
        with _told(Asked(permission="artifactregistry.dockerimages.list", repository=repository)):
            request = {"parent": repository.path, "page_size": PAGE}
            listed = self.client.list_docker_images(request=request, retry=self.retry, timeout=TIMEOUT_S)
            found = tuple(_image(one, repository) for one in listed)
        wanted = (image for image in found if name in (None, image.name))
        return tuple(sorted(wanted, key=lambda image: image.uploaded_at, reverse=True))

    def image(self, repository: Repository, *, name: str, digest: str) -> ImageListed | None:
        """None where it is not there."""
        from google.api_core.exceptions import NotFound

        path = f"{repository.path}/dockerImages/{quote(name, safe='')}@{digest}"
        with _told(Asked(permission="artifactregistry.dockerimages.get", repository=repository)):
            try:
                found = self.client.get_docker_image(name=path, retry=self.retry, timeout=TIMEOUT_S)
            except NotFound:
                return None
        return _image(found, repository)

    def _create(self, repository: Repository) -> None:
        """Somebody else's creation at the same moment is as good as ours."""
        from google.api_core.exceptions import AlreadyExists, Conflict

        request = {
            "parent": repository.parent,
            "repository_id": repository.name,
            "repository": {"format_": "DOCKER", "description": DESCRIPTION},
        }
        try:
            self.client.create_repository(request=request, retry=self.retry, timeout=TIMEOUT_S).result(timeout=BUDGET_S)
        except (AlreadyExists, Conflict):
            return


def connect(
    env: Mapping[str, str], *, host: str = HOST, scheme: str = "https", credentials: Any = None
) -> ArtifactRegistry:
    """With the Application Default Credentials. Raises Unreachable, registry-login-missing."""
    from google.api_core.retry import Retry, if_transient_error
    from google.cloud.artifactregistry_v1.services.artifact_registry import ArtifactRegistryClient
    from google.cloud.artifactregistry_v1.services.artifact_registry.transports.rest import (
        ArtifactRegistryRestTransport,
    )

    transport = ArtifactRegistryRestTransport(
        host=host, url_scheme=scheme, credentials=_credentials(env) if credentials is None else credentials
    )
    return ArtifactRegistry(
        client=ArtifactRegistryClient(transport=transport),
        retry=Retry(predicate=if_transient_error, initial=0.5, maximum=8.0, timeout=BUDGET_S),
    )


def _credentials(env: Mapping[str, str]) -> Any:
    if not may_log_in({name: value for name, value in env.items() if name != "STORAGE_EMULATOR_HOST"}):
        raise no_login("nobody is logged in")
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        return google.auth.default(scopes=[SCOPE])[0]
    except GoogleAuthError as failed:
        raise no_login(str(failed)) from None


@contextmanager
def _told(asked: Asked) -> Iterator[None]:
    """What Google's client raises, as an error of ours that names the role or the next step."""
    from concurrent.futures import TimeoutError as NotDone

    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except RetryError as failed:
        cause = failed.cause
        raise explain(getattr(cause, "code", None), _words(cause), asked) from None
    except GoogleAPICallError as failed:
        raise explain(failed.code, _words(failed), asked) from None
    except GoogleAuthError as failed:
        raise no_login(str(failed)) from None
    except (RequestException, NotDone, OSError) as failed:
        raise timed_out(str(failed), asked) from None


def _words(failed: Any) -> str:
    """Google's own, without the request that the client puts before them."""
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", str(getattr(failed, "message", "") or failed))


def _image(found: Any, repository: Repository) -> ImageListed:
    name, _, digest = str(found.uri).partition("@")
    return ImageListed(
        name=name.removeprefix(f"{repository.docker}/"),
        digest=digest,
        tags=tuple(sorted(found.tags)),
        size=int(found.image_size_bytes),
        uploaded_at=_iso(found.upload_time),
    )


def _iso(time: Any) -> str:
    return str(time.strftime("%Y-%m-%dT%H:%M:%SZ")) if time else ""
