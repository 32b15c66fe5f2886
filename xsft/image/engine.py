"""The Docker engine, through Docker's own SDK: reads, tags, pulls and pushes its images, and never removes one.

BuildKit's builds need the command line: `build`.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import docker
from docker.context import ContextAPI
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.utils import kwargs_from_env
from msgspec import Struct
from requests.exceptions import RequestException

from xsft.base.amounts import size_text
from xsft.base.errors import Unknown
from xsft.base.lenient import mapping
from xsft.image.failures import NO_CLIENT, FailedRequest, explain_failure
from xsft.image.login import Login, login_for, read_docker_config
from xsft.image.reference import Reference, parse_image_name
from xsft.machine import clock
from xsft.machine.http_session import Session, require_listener

TIMEOUT_S = 60.0
"""Time limit for one answer, and between two lines of a pull or push. The SDK's own default."""
EVERY_S = 10.0
"""Seconds between two lines about the same transfer."""


class EngineImage(Struct, frozen=True, kw_only=True):
    """An image in the engine."""

    id: str
    """`sha256:…` of its configuration (of its manifest if the engine stores images in containerd)."""
    digests: tuple[str, ...]
    """`repository@sha256:…`, for each registry that it was pushed to or pulled from."""
    labels: Mapping[str, str]
    user: str = ""
    env: tuple[str, ...] = ()

    def digest_in(self, repository: str) -> str | None:
        """Return `sha256:…` of the manifest in that repository; of several the first one that the engine lists."""
        return next(
            (digest for name, _, digest in (d.partition("@") for d in self.digests) if name == repository), None
        )


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A connected engine."""

    host: str
    """`unix:///var/run/docker.sock`, `ssh://…`, `tcp://…`."""
    api: Any = field(repr=False)
    """docker.APIClient."""
    env: Mapping[str, str] = field(repr=False)
    find_login: Callable[..., Login | None] = field(default=login_for, repr=False)

    @cached_property
    def rootless(self) -> bool:
        with explain_engine_errors(FailedRequest(what="tell about itself")):
            return any("rootless" in option for option in self.api.info().get("SecurityOptions") or ())

    @property
    def builder(self) -> str:
        """The name of this engine's own builder, for buildx: that of the context; another one has other images."""
        if self.env.get("DOCKER_HOST"):
            return "default"
        return self.env.get("DOCKER_CONTEXT") or read_docker_config(self.env).get("currentContext") or "default"

    def free_bytes(self) -> int | None:
        """Return the free space of the engine's disk; None if the engine is on another machine, or does not say."""
        if not self.host.startswith(("unix://", "http+unix://")):
            return None
        with suppress(DockerException, RequestException, OSError, KeyError):
            return shutil.disk_usage(self.api.info()["DockerRootDir"]).free
        return None

    def image(self, ref: str) -> EngineImage | None:
        """Return the image; None if the engine has none of that name, digest or id."""
        with explain_engine_errors(FailedRequest(what=f"look at {ref}")):
            try:
                answer = self.api.inspect_image(ref)
            except ImageNotFound:
                return None
        config = mapping(answer, "Config")
        return EngineImage(
            id=answer["Id"],
            digests=tuple(answer.get("RepoDigests") or ()),
            labels=mapping(config, "Labels"),
            user=config.get("User") or "",
            env=tuple(config.get("Env") or ()),
        )

    def tag(self, ref: str, *, repository: str, tag: str) -> None:
        """Add a name to an image in the engine. Raises EnvironmentMissing if there is no such image."""
        with explain_engine_errors(FailedRequest(what=f"tag {ref} as {repository}:{tag}")):
            self.api.tag(ref, repository, tag)

    def read_file(self, ref: str, path: str) -> bytes | None:
        """Return the content of a file in an image, from a container that is never started; None if it has none."""
        with explain_engine_errors(FailedRequest(what=f"read {path} in {ref}")):
            container = self.api.create_container(ref, command=["none"])["Id"]
            try:
                chunks, _ = self.api.get_archive(container, path)
                archive = io.BytesIO(b"".join(chunks))
            except NotFound:
                return None
            finally:
                self.api.remove_container(container, force=True)
        with tarfile.open(fileobj=archive) as tar:
            content = tar.extractfile(tar.getmembers()[0])
            return content.read() if content else None

    def pull(self, ref: str, *, on_line: Callable[[str], None] = lambda _: None) -> EngineImage:
        """Pull by digest or tag; without a login anonymously, since a public image needs none. Raises Unreachable and
        EnvironmentMissing.
        """
        name = parse_image_name(ref)
        login, request = self._transfer(f"pull {ref}", name, pushes=False)
        with explain_engine_errors(request):
            lines = self.api.pull(
                name.name,
                tag=name.identifier,
                stream=True,
                decode=True,
                auth_config=login,
            )
            follow_transfer(lines, request, on_line=on_line)
        image = self.image(ref)
        if image is None:
            raise explain_failure(f"{ref}: not found after the pull", request)
        return image

    def push(self, ref: str, *, repository: str, tag: str, on_line: Callable[[str], None]) -> str:
        """Push the image as `repository:tag` and return the digest of its manifest, as the engine tells it. The engine
        itself tries each layer five times, in 50 s.
        """
        self.tag(ref, repository=repository, tag=tag)
        login, request = self._transfer(f"push {repository}:{tag}", parse_image_name(repository), pushes=True)
        with explain_engine_errors(request):
            lines = self.api.push(repository, tag=tag, stream=True, decode=True, auth_config=login)
            digest = follow_transfer(lines, request, on_line=on_line)
        if not digest:
            raise Unknown(
                f"The engine ended the push of {repository}:{tag} without a digest.",
                fix="Push again; nothing was recorded.",
                id="push-unconfirmed",
            )
        return digest

    def _transfer(self, what: str, name: Reference, *, pushes: bool) -> tuple[dict[str, str], FailedRequest]:
        """Return the login for the SDK, empty without one, and the words about the request."""
        login = self.find_login(name.host, env=self.env)
        request = FailedRequest(
            what=what,
            host=name.host,
            repository=name.name,
            pushes=pushes,
            anonymous=login is None,
        )
        return (login.for_docker if login else {}), request


def connect_engine(env: Mapping[str, str]) -> Engine:
    """Connect to the engine that `docker` would use with this environment: DOCKER_HOST, else the context, else the
    machine's own. Raises EnvironmentMissing: docker-missing, docker-permission or docker-not-running.
    """

    class DockerApi(Session, docker.APIClient):  # type: ignore[misc]
        """The SDK's client, without the logins of ~/.netrc."""

    make: Callable[..., Any] = DockerApi
    host = env.get("DOCKER_HOST") or "the current context"
    try:
        address = dict(kwargs_from_env(environment=dict(env) or {"": ""}))
        if "base_url" not in address:
            address = {**ContextAPI.kwargs_from_context(environment=dict(env)), **address}
        host = address.get("base_url") or "unix:///var/run/docker.sock"
        if host.startswith("unix://"):  # the SDK's own error has less detail, and leaves its socket open
            require_listener(host.removeprefix("unix://"), timeout_s=TIMEOUT_S)
        api = make(version="auto", timeout=TIMEOUT_S, use_ssh_client=True, **address)
    except (DockerException, OSError, ValueError) as failed:
        client = shutil.which("docker", path=env.get("PATH"))
        words = str(failed) if client else f"{failed}; {NO_CLIENT}"
        raise explain_failure(words, FailedRequest(what="use Docker", stage="connect", host=host)) from None
    return Engine(host=host, api=api, env=env)


@contextmanager
def explain_engine_errors(request: FailedRequest) -> Iterator[None]:
    """Turn what the SDK or its transport raises into an xsft error that names the next step."""
    try:
        yield
    except APIError as failed:
        raise explain_failure(f"{failed.explanation or failed} (HTTP {failed.status_code})", request) from None
    except (DockerException, RequestException, OSError) as failed:
        raise explain_failure(str(failed), request) from None


def follow_transfer(
    lines: Iterable[Mapping[str, Any]], request: FailedRequest, *, on_line: Callable[[str], None]
) -> str:
    """Read the engine's lines about a push or pull to their end, and tell how far it is. Returns the digest that the
    engine names; empty if it names none. Raises as `explain_failure` if it reports a failure. source: moby@20.10
    pkg/jsonmessage, distribution/push_v2.go.
    """
    sent_bytes: dict[str, int] = {}
    totals: dict[str, int] = {}
    digest = ""
    error = ""
    told_at = clock.monotonic()
    for line in lines:  # to the end, also after an error: else the connection stays open
        detail = line.get("errorDetail")
        error = error or str(line.get("error") or (isinstance(detail, dict) and detail.get("message")) or "")
        digest = str((line.get("aux") or {}).get("Digest") or digest)
        status = str(line.get("status", ""))
        layer = str(line.get("id") or "")
        progress = line.get("progressDetail") or {}
        if layer and progress.get("total"):
            totals[layer] = int(progress["total"])
            sent_bytes[layer] = min(int(progress.get("current") or 0), totals[layer])
        if status.startswith("Retrying in 1 second") or (totals and clock.monotonic() - told_at > EVERY_S):
            told_at = clock.monotonic()
            done = f"{size_text(sum(sent_bytes.values()))} of {size_text(sum(totals.values()))}"
            on_line(f"{layer} {status.lower()}: {done}")
    if error:
        raise explain_failure(error, request)
    return digest
