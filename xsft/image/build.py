"""Builds with BuildKit, through the docker command line: the SDK supports only the old builder. BuildKit's own progress
is passed on line by line.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from xsft.base.errors import EnvironmentMissing, TimedOut, Unknown, XsftError
from xsft.image.context import ContextFile
from xsft.image.engine import Engine
from xsft.image.failures import FailedRequest, explain_failure
from xsft.image.folders import write_tar
from xsft.image.recipe import PIP_SECRET, PLATFORM
from xsft.machine import process

NEEDS_BUILDX = 23
"""First major version of the client whose BuildKit is the buildx plugin; older ones use the engine's own. source:
Docker 23.0 release notes.
"""
ALSO = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Searched after PATH: a newer client without buildx may hide an older one that can build."""
INSTALL_BUILDX = (
    "Install buildx: apt-get install docker-buildx-plugin (Docker's own packages) or docker-buildx (Debian 13, Ubuntu)."
)
LAST_LINES = 60
"""Lines of a failed build in which its cause is searched: earlier ones may be of steps that succeeded at last."""
_METADATA_OF_BASE = re.compile(r"^#(?P<step>\d+) \[internal\] load metadata for (?P<base>\S+)", re.MULTILINE)


class BuildClient(Struct, frozen=True, kw_only=True):
    """A docker command that builds with BuildKit."""

    path: str
    version: str
    buildx: bool
    """Whether it builds with the buildx plugin; else with the engine's own BuildKit."""

    @property
    def builds(self) -> bool:
        return self.buildx or int(self.version.partition(".")[0]) < NEEDS_BUILDX


class Build(Struct, frozen=True, kw_only=True):
    """One `docker build`."""

    what: str
    """For messages: `the deps image`."""
    name: str
    """`repository:tag` that the image gets."""
    files: tuple[ContextFile, ...]
    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    pip_config: str | None = None
    """File for the secret `pip_conf`."""
    network: str = "default"


def find_client(env: Mapping[str, str], *, also: Sequence[str] = ALSO) -> BuildClient:
    """Return the first docker command that can use BuildKit. Raises EnvironmentMissing, docker-buildkit-missing."""
    files: dict[Path, str] = {}
    for folder in (*(env.get("PATH") or os.defpath).split(os.pathsep), *also):
        path = Path(folder or ".") / "docker"
        if os.access(path, os.X_OK) and path.is_file():
            files.setdefault(path.resolve(), str(path))
    paths = tuple(files.values())
    clients = tuple(clients_of(paths, partial(_output_of, env=env)))
    if not clients:
        tried = "not found"
        if paths:  # podman's, for example
            tried = f"{', '.join(paths)} is not Docker's"
        raise EnvironmentMissing(
            f"Images are built with the docker command, and it is not on PATH ({tried}).",
            fix="Install Docker: https://docs.docker.com/engine/install.",
            id="docker-missing",
        )
    for client in clients:
        if client.builds:
            return client
    names = ", ".join(f"{client.path} {client.version}" for client in clients)
    raise EnvironmentMissing(
        f"No docker command here can use BuildKit: {names} needs its buildx plugin, which is missing.",
        fix=INSTALL_BUILDX,
        id="docker-buildkit-missing",
    )


def clients_of(paths: Iterable[str], output: Callable[[tuple[str, ...]], str]) -> Iterator[BuildClient]:
    """Yield the commands that start and are Docker's, not podman-docker. `output`: returns what a command prints; empty
    if it fails.
    """
    for path in paths:
        if version := re.search(r"Docker version (\d+\.\d+\S*?),", output((path, "--version"))):
            yield BuildClient(path=path, version=version[1], buildx="buildx" in output((path, "buildx", "version")))


def run_build(build: Build, *, engine: Engine, on_line: Callable[[str], None]) -> None:
    """Build the image with the docker command of this machine. Raises EnvironmentMissing, Unreachable or Refused,
    depending on the failure. On Ctrl-C the client ends, the engine stops the build, and no name is given.
    """
    command, env = build_command(find_client(engine.env), engine)
    with tempfile.TemporaryFile() as context:
        write_tar(build.files, context)
        context.seek(0)
        done = process.follow((*command, *build_arguments(build), "-"), env=env, on_line=on_line, stdin=context)
    if not done.ok:
        raise _build_failure(done.stdout, build)
    if engine.image(build.name) is None:
        raise Unknown(
            f"Docker built {build.name}, but the engine at {engine.host} does not have it.",
            fix="The docker command may use another engine; check `docker context ls` and `docker buildx ls`.",
            id="image-not-built",
        )


def build_arguments(build: Build) -> Iterator[str]:
    """Yield the arguments of `docker build`, without the context; secrets only by the name of their file."""
    yield from ("--progress=plain", "--platform", PLATFORM, "--network", build.network, "--tag", build.name)
    for key, text in sorted(build.args.items()):
        yield from ("--build-arg", f"{key}={text}")
    for key, text in sorted(build.labels.items()):
        yield from ("--label", f"{key}={text}")
    if build.pip_config:
        # A row of CSV, because a path may contain a comma. source: buildx@0.19 util/buildflags.
        secret = io.StringIO()
        csv.writer(secret, lineterminator="").writerow((f"id={PIP_SECRET}", f"src={build.pip_config}"))
        yield from ("--secret", secret.getvalue())


def build_command(client: BuildClient, engine: Engine) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the words before the arguments of a build, and the client's environment."""
    # BUILDX_BUILDER may name a builder that has none of this engine's images.
    env = {name: text for name, text in engine.env.items() if name != "BUILDX_BUILDER"}
    if not client.buildx:
        return (client.path, "build"), {**env, "DOCKER_BUILDKIT": "1"}
    argv = (client.path, "buildx", "build", "--builder", engine.builder, "--load")
    # Attestations would turn the image into an index, with another digest each time.
    return argv, {**env, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}


def _build_failure(output: str, build: Build) -> XsftError:
    """Return the error for a failed build. A base image that could not be read is a failure of its registry."""
    for metadata in _METADATA_OF_BASE.finditer(output):
        if error := re.search(rf"^#{metadata['step']} ERROR:? ?(.*)", output, re.MULTILINE):
            base = metadata["base"]
            request = FailedRequest(what=f"pull the base image {base}", host=base.partition("/")[0], repository=base)
            return explain_failure(error[1], request)
    if not re.search(r"^#\d+ ", output, re.MULTILINE):  # BuildKit did not begin
        return explain_failure(output, FailedRequest(what=f"build {build.what}"))
    last = "\n".join(output.splitlines()[-LAST_LINES:])
    return explain_failure(last, FailedRequest(what=f"build {build.what}", stage="build"))


def _output_of(argv: tuple[str, ...], *, env: Mapping[str, str]) -> str:
    """Return the command's output; empty if it fails or does not answer."""
    try:
        done = process.run(argv, env=env, timeout_s=20)
    except (EnvironmentMissing, TimedOut):
        return ""
    return done.stdout if done.ok else ""
