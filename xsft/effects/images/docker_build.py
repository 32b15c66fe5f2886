"""Builds an image with BuildKit, through the docker command line: the SDK supports only the old builder.

The context is a tar on standard input, which is never written to disk.
"""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing, TimedOut, Unknown
from xsft.effects.images import docker_context
from xsft.effects.images.docker_client import Engine, EngineImage
from xsft.effects.images.docker_login import Credential, private_config
from xsft.image.build_errors import build_failed
from xsft.image.model import BuildStep
from xsft.image.progress import BuildEvent, BuildOutput, SentContext
from xsft.machine import process
from xsft.machine.parallel import start

NEEDS_BUILDX = 23
"""First major version of the client whose BuildKit is the buildx plugin; older ones use the engine's own. source:
Docker 23.0 release notes.
"""
ALSO = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Searched after PATH: a newer client without buildx may hide an older one that can build."""
GRACE_S = 5.0
"""Seconds from SIGINT to SIGKILL: the client tells the engine to stop, and waits for its answer."""
INSTALL_BUILDX = (
    "Install buildx: apt-get install docker-buildx-plugin (Docker's own packages) or docker-buildx (Debian 13, Ubuntu)."
)


class BuildClient(Struct, frozen=True, kw_only=True):
    """A docker command that builds with BuildKit."""

    path: str
    version: str
    buildx: bool
    """Whether it builds with the buildx plugin; else with the engine's own BuildKit."""

    @property
    def builds(self) -> bool:
        return self.buildx or int(self.version.partition(".")[0]) < NEEDS_BUILDX

    def argv(self) -> tuple[str, ...]:
        return (self.path, "buildx", "build", "--load") if self.buildx else (self.path, "build")

    def env(self) -> dict[str, str]:
        """Return the environment variables. Attestations are disabled: they would turn the image into an index, with
        another digest each time.
        """
        return {"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"} if self.buildx else {"DOCKER_BUILDKIT": "1"}


def find_client(env: Mapping[str, str], *, also: Sequence[str] = ALSO) -> BuildClient:
    """Return the first docker command that can use BuildKit. Raises EnvironmentMissing, docker-buildkit-missing."""
    paths = tuple(_commands(env, also))
    with private_config(env=env, own=False) as config:
        clients = tuple(clients_of(paths, partial(_output_of, env={**env, "DOCKER_CONFIG": str(config)})))
    if not clients:
        tried = f"{', '.join(paths)} is not Docker's" if paths else "not found"
        raise EnvironmentMissing(
            f"Images are built with the docker command, and it is not on PATH ({tried}).",
            fix="Install Docker: https://docs.docker.com/engine/install.",
            id="docker-missing",
        )
    usable = next((found for found in clients if found.builds), None)
    if usable is None:
        named = ", ".join(f"{found.path} {found.version}" for found in clients)
        raise EnvironmentMissing(
            f"No docker command here can use BuildKit: {named} needs its buildx plugin, which is missing.",
            fix=INSTALL_BUILDX,
            id="docker-buildkit-missing",
        )
    return usable


def clients_of(paths: Iterable[str], output: Callable[[tuple[str, ...]], str]) -> Iterator[BuildClient]:
    """Yield the commands that start and are Docker's, not podman-docker. `output`: returns what a command prints; empty
    if it fails.
    """
    for path in paths:
        if version := re.search(r"Docker version (\d+\.\d+\S*?),", output((path, "--version"))):
            yield BuildClient(path=path, version=version[1], buildx="buildx" in output((path, "buildx", "version")))


def build(
    step: BuildStep,
    *,
    engine: Engine,
    client: BuildClient,
    names: Sequence[str],
    logins: Iterable[Credential] = (),
    on_event: Callable[[BuildEvent], None] = lambda _: None,
) -> EngineImage:
    """Build, give the image each of `names` (`repository:tag`), and return it. `logins` are for private base images, in
    addition to the user's own.

    Raises EnvironmentMissing, Unreachable or Refused, depending on the failure. On Ctrl-C the engine stops the build,
    and no name is given.
    """
    with private_config(env=engine.env, logins=logins) as config:
        env = {**engine.env, **client.env(), "DOCKER_CONFIG": str(config)}
        _run_build((*client.argv(), *arguments(step, names=names), "-"), step=step, env=env, on_event=on_event)
    found = engine.image(names[0])
    if found is None:
        raise Unknown(
            f"Docker built {names[0]}, but the engine at {engine.host} does not have it.",
            fix="The docker command may use another engine; check `docker context ls` and `docker buildx ls`.",
            id="image-not-built",
        )
    return found


def arguments(step: BuildStep, *, names: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of `docker build`, without the context; secrets only by the name of their file."""
    yield from ("--progress=plain", "--file", step.dockerfile, "--platform", step.platform, "--network", step.network)
    for name in names:
        yield from ("--tag", name)
    for key, value in sorted(step.args.items()):
        yield from ("--build-arg", f"{key}={value}")
    for key, value in sorted(step.labels.items()):
        yield from ("--label", f"{key}={value}")
    for secret in step.secrets:
        yield from ("--secret", _csv_row(f"id={secret.id}", f"src={secret.file}"))


def _csv_row(*fields: str) -> str:
    """Return one row of CSV, as BuildKit's clients read it: a path may contain a comma. source: buildx@0.19
    util/buildflags.
    """
    csv.writer(row := io.StringIO(), lineterminator="").writerow(fields)
    return row.getvalue()


def _run_build(
    argv: tuple[str, ...], *, step: BuildStep, env: Mapping[str, str], on_event: Callable[[BuildEvent], None]
) -> None:
    reading, lock = BuildOutput(), threading.Lock()

    def tell(event: BuildEvent) -> None:  # called from two threads
        with lock:
            on_event(event)

    running = _start_build(argv, env)
    sending = start(lambda: _send_context(step, running, on_sent=tell))
    try:
        for line in running.stdout or ():
            for event in reading.events(line.decode("utf-8", "replace").rstrip()):
                tell(event)
        status = running.wait()
        sending.result()
    finally:
        _stop(running)
    if status:
        raise build_failed(reading, step)


def _send_context(step: BuildStep, to: subprocess.Popen[bytes], *, on_sent: Callable[[SentContext], None]) -> None:
    """Send the context as a tar. Docker takes a tar that is cut between two files for a complete one, so after a
    failure it must never get the end.
    """
    assert to.stdin
    try:
        with suppress(BrokenPipeError):  # the command ended: its output shows why
            docker_context.write_context(step.files, to.stdin, on_sent=on_sent)
    except BaseException:
        process.stop_session(to, grace_s=GRACE_S)
        raise
    finally:
        with suppress(OSError):
            to.stdin.close()


def _start_build(argv: tuple[str, ...], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the command in its own session: Ctrl-C reaches only xsft, which then stops it."""
    try:
        return subprocess.Popen(
            argv, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as failed:
        why = f"{argv[0]} could not be started: {failed.strerror}"
        raise EnvironmentMissing(why, fix="`xsft doctor` shows what is missing.") from None


def _stop(running: subprocess.Popen[bytes]) -> None:
    """Stop the command. On SIGINT the client closes its session, and the engine aborts the build."""
    process.stop_session(running, grace_s=GRACE_S)
    if running.stdout:
        running.stdout.close()


def _commands(env: Mapping[str, str], also: Sequence[str]) -> Iterator[str]:
    """Yield every docker command, those of PATH first, each file once."""
    seen: set[Path] = set()
    for folder in (*(env.get("PATH") or os.defpath).split(os.pathsep), *also):
        path = Path(folder or ".") / "docker"
        if os.access(path, os.X_OK) and path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield str(path)


def _output_of(argv: tuple[str, ...], *, env: Mapping[str, str]) -> str:
    """Return the command's output; empty if it fails or does not answer."""
    try:
        done = process.run(argv, env=env, timeout_s=20)
    except (EnvironmentMissing, TimedOut):
        return ""
    return done.stdout if done.ok else ""
