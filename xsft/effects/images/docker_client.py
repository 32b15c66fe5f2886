"""The Docker engine, through Docker's own SDK: lists, tags and pulls its images, and never removes one.

BuildKit's builds need the command line: `docker_build`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import docker
from docker.auth import encode_header
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, ImageNotFound, create_api_error_from_http_exception
from docker.utils import kwargs_from_env
from msgspec import Struct
from requests.exceptions import HTTPError, RequestException

from xsft.image.docker_errors import DockerRequest, explain_docker_error, no_engine
from xsft.image.progress import Layer
from xsft.image.registry_names import is_google, parse_image_name
from xsft.machine.http_session import Session
from xsft.machine.sockets import require_listener

TIMEOUT_S = 60.0
"""Time limit for one answer, and between two lines of a pull or push. The SDK's own default."""

_MOVING = ("Pushing", "Downloading", "Extracting")
_DONE = ("Pushed", "Pull complete", "Mounted from")
_EXISTS = ("Layer already exists", "Already exists")
_WAITING = ("Preparing", "Waiting", "Pulling fs layer", "Verifying Checksum", "Download complete")
"""source: moby@20.10 distribution/push_v2.go, pull_v2.go, xfer/; moby@28 daemon/containerd/progress.go."""


class EngineImage(Struct, frozen=True, kw_only=True):
    """An image in the engine."""

    id: str
    """`sha256:…` of its configuration (of its manifest if the engine stores images in containerd)."""
    tags: tuple[str, ...]
    """`repository:tag`."""
    digests: tuple[str, ...]
    """`repository@sha256:…`, for each registry that it was pushed to or pulled from."""
    labels: Mapping[str, str]
    size: int
    """Bytes, unpacked."""
    platform: str
    """`linux/amd64`."""
    created: str
    user: str = ""
    env: tuple[str, ...] = ()

    def digest_in(self, repository: str) -> str | None:
        """Return `sha256:…` of the manifest in that repository."""
        named = (digest.partition("@") for digest in self.digests)
        return next((digest for name, _, digest in named if name == repository), None)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A connected engine."""

    host: str
    """`unix:///var/run/docker.sock`, `ssh://…`, `tcp://…`."""
    api: Any = field(repr=False)
    """docker.APIClient."""
    env: Mapping[str, str] = field(repr=False)

    @cached_property
    def rootless(self) -> bool:
        with explain_engine_errors(DockerRequest(what="tell about itself")):
            return any("rootless" in option for option in self.api.info().get("SecurityOptions") or ())

    def image(self, ref: str) -> EngineImage | None:
        """Return the image; None if the engine has none of that name, digest or id."""
        with explain_engine_errors(DockerRequest(what=f"look at {ref}")):
            try:
                return _image_of_answer(self.api.inspect_image(ref))
            except ImageNotFound:
                return None

    def images(self, *, label: str) -> tuple[EngineImage, ...]:
        """Return the images with the label (`name` or `name=value`), newest first."""
        with explain_engine_errors(DockerRequest(what="list its images")):
            found = self.api.images(filters={"label": label})
            return tuple(_image_of_answer(self.api.inspect_image(one["Id"])) for one in found)

    def tag(self, ref: str, *, repository: str, tag: str) -> None:
        """Add a name to an image in the engine. Raises EnvironmentMissing if there is no such image."""
        with explain_engine_errors(DockerRequest(what=f"tag {ref} as {repository}:{tag}")):
            self.api.tag(ref, repository, tag)

    @contextmanager
    def pushing(self, repository: str, tag: str, *, auth: Mapping[str, str]) -> Iterator[Iterator[Mapping[str, Any]]]:
        """Yield the engine's messages of a push, line by line; leaving the block ends the push. Not the SDK's own
        `push`, whose connection cannot be closed before its end.
        """
        url = f"{self.api.base_url}/v{self.api.api_version}/images/{repository}/push"
        options = {"params": {"tag": tag}, "headers": {"X-Registry-Auth": encode_header(dict(auth))}, "stream": True}
        with self.api.post(url, timeout=self.api.timeout, **options) as answer:
            try:
                answer.raise_for_status()
            except HTTPError as failed:
                create_api_error_from_http_exception(failed)
            yield (json.loads(line) for line in answer.iter_lines() if line)

    def pull(
        self, ref: str, *, auth: Mapping[str, str] | None = None, on_event: Callable[[Layer], None] = lambda _: None
    ) -> EngineImage:
        """Pull by digest or tag. `auth`: as `docker_login.auth_for` returns it. Raises Unreachable and
        EnvironmentMissing.
        """
        at = parse_image_name(ref)
        request = DockerRequest(
            what=f"pull {ref}",
            host=at.host,
            repository=at.repository,
            google=is_google(at.host),
            anonymous=not auth,
        )
        with explain_engine_errors(request):
            lines = self.api.pull(
                at.repository,
                tag=at.reference,  # or a digest
                stream=True,
                decode=True,
                auth_config=dict(auth or {}),
            )
            for layer in layers(lines, request):
                on_event(layer)
        found = self.image(ref)
        if found is None:
            raise explain_docker_error(f"{ref}: not found after the pull", request)
        return found


def connect_engine(env: Mapping[str, str]) -> Engine:
    """Connect to the engine that `docker` would use with this environment: DOCKER_HOST, else the context, else the
    machine's own. Raises EnvironmentMissing: docker-missing, docker-permission or docker-not-running.
    """

    class DockerApi(Session, docker.APIClient):  # type: ignore[misc]
        """The SDK's client, without the logins of ~/.netrc."""

    make: Callable[..., Any] = DockerApi
    settings = _address(env)
    host = settings.get("base_url") or "unix:///var/run/docker.sock"
    try:
        _knock(host)
        api = make(version="auto", timeout=TIMEOUT_S, use_ssh_client=True, **settings)
    except (DockerException, OSError, ValueError) as failed:
        raise no_engine(str(failed), host=host, client=shutil.which("docker", path=env.get("PATH"))) from None
    return Engine(host=host, api=api, env=env)


@contextmanager
def explain_engine_errors(request: DockerRequest) -> Iterator[None]:
    """Turn what the SDK or its transport raises into an xsft error that names the next step."""
    try:
        yield
    except APIError as failed:
        raise explain_docker_error(f"{failed.explanation or failed} (HTTP {failed.status_code})", request) from None
    except (DockerException, RequestException, OSError) as failed:
        raise explain_docker_error(str(failed), request) from None


def layers(lines: Iterable[Mapping[str, Any]], request: DockerRequest) -> Iterator[Layer]:
    """Yield the layers' progress in the answer of a push or pull. Raises as `explain` does if the answer reports a
    failure.
    """
    for line in lines:
        if error := error_of(line):
            raise explain_docker_error(error, request)
        if layer := layer_of(line):
            yield layer


def error_of(line: Mapping[str, Any]) -> str:
    detail = line.get("errorDetail")
    return str((detail.get("message") if isinstance(detail, dict) else None) or line.get("error") or "")


def layer_of(line: Mapping[str, Any]) -> Layer | None:
    """Return the layer of a line; None if it is not about one layer."""
    status, detail = str(line.get("status", "")), line.get("progressDetail") or {}
    layer, moved, total = str(line.get("id", "")), int(detail.get("current") or 0), int(detail.get("total") or 0)
    if not layer:
        return None
    if status.startswith(_MOVING):
        return Layer(id=layer, state="moving", bytes=min(moved, total) if total else moved, total=total)
    if status.startswith(_DONE):
        return Layer(id=layer, state="done")
    if status.startswith(_EXISTS):
        return Layer(id=layer, state="exists")
    return Layer(id=layer, state="waiting") if status.startswith(_WAITING) else None


def _address(env: Mapping[str, str]) -> dict[str, Any]:
    """Return base_url and tls for the SDK."""
    try:
        named = dict(kwargs_from_env(environment=dict(env) or {"": ""}))
        return named if "base_url" in named else {**ContextAPI.kwargs_from_context(environment=dict(env)), **named}
    except (DockerException, OSError, ValueError) as failed:
        raise no_engine(str(failed), host=env.get("DOCKER_HOST") or "the current context", client="docker") from None


def _knock(host: str) -> None:
    """Raise OSError if no process listens: the SDK's error has less detail, and leaves its own socket open."""
    if host.startswith("unix://"):
        require_listener(host.removeprefix("unix://"), timeout_s=TIMEOUT_S)


def _image_of_answer(said: Mapping[str, Any]) -> EngineImage:
    config = said.get("Config") or {}
    return EngineImage(
        id=said["Id"],
        tags=tuple(said.get("RepoTags") or ()),
        digests=tuple(said.get("RepoDigests") or ()),
        labels=dict(config.get("Labels") or {}),
        size=int(said.get("Size") or 0),
        platform=f"{said.get('Os', 'linux')}/{_machine(said.get('Architecture', ''))}",
        created=said.get("Created", ""),
        user=config.get("User") or "",
        env=tuple(config.get("Env") or ()),
    )


def _machine(name: str) -> str:
    """Return the architecture as images name it: the engine's kernel reports x86_64 for amd64."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(name, name)
