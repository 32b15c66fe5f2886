"""Build an image with BuildKit, through the docker command line: the SDK knows only the old builder.

The context is a tar on standard input; nothing of it is written to disk on the way.
"""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from xsft.effects.images import docker_context
from xsft.effects.images.docker_client import Engine, ImageSeen
from xsft.effects.images.docker_login import Credential, private_config
from xsft.effects.machine import process
from xsft.errors import EnvironmentMissing, TimedOut, Unknown
from xsft.image.build_errors import build_failed
from xsft.image.model import BuildStep
from xsft.image.progress import Event, Reading

NEEDS_BUILDX = 23
"""First major version of the client whose BuildKit is the buildx plugin; older ones use the engine's own.
source: Docker 23.0 release notes."""
ALSO = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
"""Looked in behind PATH: a newer client without buildx may hide an older one that can build."""
GRACE_S = 5.0
"""From SIGINT to SIGKILL: the client tells the engine to stop, and waits for its word."""
INSTALL_BUILDX = (
    "Install buildx: apt-get install docker-buildx-plugin (Docker's own packages) or docker-buildx (Debian 13, Ubuntu)."
)


class Client(Struct, frozen=True, kw_only=True):
    """A docker command that builds with BuildKit."""

    path: str
    version: str
    buildx: bool
    """Through the plugin; else the engine's own BuildKit."""

    def argv(self) -> tuple[str, ...]:
        return (self.path, "buildx", "build", "--load") if self.buildx else (self.path, "build")

    def env(self) -> dict[str, str]:
        """Attestations would make an index of the image, and another digest each time."""
        return {"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"} if self.buildx else {"DOCKER_BUILDKIT": "1"}


def find_client(env: Mapping[str, str], *, also: Sequence[str] = ALSO) -> Client:
    """The first docker command that can use BuildKit. Raises EnvironmentMissing, docker-buildkit-missing."""
    paths = tuple(_commands(env, also))
    with private_config(env=env, own=False) as config:
        clients = tuple(found for path in paths if (found := _client(path, {**env, "DOCKER_CONFIG": str(config)})))
    if not clients:
        tried = f"{', '.join(paths)} is not Docker's" if paths else "nothing of that name"
        raise EnvironmentMissing(
            f"Images are built with the docker command, and there is none on PATH ({tried}).",
            fix="Install Docker: https://docs.docker.com/engine/install.",
            id="docker-missing",
        )
    usable = next(
        (found for found in clients if found.buildx or int(found.version.partition(".")[0]) < NEEDS_BUILDX), None
    )
    if usable is None:
        named = ", ".join(f"{found.path} {found.version}" for found in clients)
        raise EnvironmentMissing(
            f"No docker command here can use BuildKit: {named} needs its buildx plugin, which is missing.",
            fix=INSTALL_BUILDX,
            id="docker-buildkit-missing",
        )
    return usable


def build(
    step: BuildStep,
    *,
    engine: Engine,
    client: Client,
    names: Sequence[str],
    logins: Iterable[Credential] = (),
    on_event: Callable[[Event], None] = lambda _: None,
) -> ImageSeen:
    """Build, give the image each of `names` (`repository:tag`), and look at it.

    `logins` are for private base images, beside the user's own. Raises EnvironmentMissing, Unreachable or Refused as
    the failure is; on Ctrl-C the engine is told to stop, and no name is given.
    """
    one_at_a_time = _serial(on_event)
    with private_config(env=engine.env, logins=logins) as config:
        env = {**engine.env, **client.env(), "DOCKER_CONFIG": str(config)}
        _run((*client.argv(), *arguments(step, names=names), "-"), step=step, env=env, on_event=one_at_a_time)
    found = engine.image(names[0])
    if found is None:
        raise Unknown(
            f"Docker built {names[0]}, and the engine at {engine.host} does not hold it.",
            fix="Does the docker command use another engine? `docker context ls` and `docker buildx ls` tell.",
            id="image-not-built",
        )
    return found


def arguments(step: BuildStep, *, names: Sequence[str]) -> Iterator[str]:
    """Of `docker build`, without the context; secrets by the name of their file only."""
    yield from ("--progress=plain", "--file", step.dockerfile, "--platform", step.platform, "--network", step.network)
    for name in names:
        yield from ("--tag", name)
    for key, value in sorted(step.args.items()):
        yield from ("--build-arg", f"{key}={value}")
    for key, value in sorted(step.labels.items()):
        yield from ("--label", f"{key}={value}")
    for secret in step.secrets:
        yield from ("--secret", _fields(f"id={secret.id}", f"src={secret.file}"))


def _fields(*fields: str) -> str:
    """One row of CSV, as BuildKit's clients read it: a path may hold a comma. source: buildx@0.19 util/buildflags."""
    csv.writer(row := io.StringIO(), lineterminator="").writerow(fields)
    return row.getvalue()


def _run(argv: tuple[str, ...], *, step: BuildStep, env: Mapping[str, str], on_event: Callable[[Event], None]) -> None:
    reading = Reading()
    process_ = _start(argv, env)
    sending = _Sending(step=step, to=process_, on_event=on_event)
    sending.start()
    try:
        for line in process_.stdout or ():
            for event in reading.events(line.decode("utf-8", "replace").rstrip()):
                on_event(event)
        status = process_.wait()
        sending.join()
    finally:
        _stop(process_)
    if sending.failed:
        raise sending.failed
    if status:
        raise build_failed(reading, step)


@dataclass
class _Sending:
    """The context on its way to the docker command, beside the reading of what it says."""

    step: BuildStep
    to: subprocess.Popen[bytes]
    on_event: Callable[[Event], None]
    failed: BaseException | None = None
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._send, daemon=True, name="xsft-context")
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _send(self) -> None:
        """A tar that is cut between two files is a whole one to Docker: after a failure it may never see the end."""
        try:
            with suppress(BrokenPipeError):  # the command ended: what it said tells why
                docker_context.write(self.step.files, self.to.stdin, on_sent=self.on_event)  # type: ignore[arg-type]
        except BaseException as failed:  # noqa: BLE001 - raised again in the thread that waits
            self.failed = failed
            _end(self.to)
        finally:
            with suppress(OSError):
                self.to.stdin.close()  # type: ignore[union-attr]


def _serial(on_event: Callable[[Event], None]) -> Callable[[Event], None]:
    """Two threads tell; whoever is told hears one at a time."""
    lock = threading.Lock()

    def tell(event: Event) -> None:
        with lock:
            on_event(event)

    return tell


def _start(argv: tuple[str, ...], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C reaches xsft alone, which then ends it in order."""
    try:
        return subprocess.Popen(
            argv, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as failed:
        why = f"{argv[0]} could not be started: {failed.strerror}"
        raise EnvironmentMissing(why, fix="`xsft doctor` tells what is missing.") from None


def _stop(running: subprocess.Popen[bytes]) -> None:
    with suppress(KeyboardInterrupt):
        _end(running)
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    if running.stdout:
        running.stdout.close()


def _end(running: subprocess.Popen[bytes]) -> None:
    """SIGINT: the client closes its session, and the engine gives up what it builds. Then SIGKILL."""
    if running.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGINT)
    try:
        running.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        running.kill()


def _commands(env: Mapping[str, str], also: Sequence[str]) -> Iterator[str]:
    """Every docker command, those of PATH first; one file once."""
    seen: set[Path] = set()
    for folder in (*(env.get("PATH") or os.defpath).split(os.pathsep), *also):
        path = Path(folder or ".") / "docker"
        if os.access(path, os.X_OK) and path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield str(path)


def _client(path: str, env: Mapping[str, str]) -> Client | None:
    """None where it is not Docker's (podman-docker) or does not start."""
    version = re.search(r"Docker version (\d+\.\d+\S*?),", _said((path, "--version"), env))
    if version is None:
        return None
    return Client(path=path, version=version[1], buildx="buildx" in _said((path, "buildx", "version"), env))


def _said(argv: tuple[str, ...], env: Mapping[str, str]) -> str:
    """Empty where the command fails or does not answer."""
    try:
        done = process.run(argv, env=env, timeout_s=20)
    except (EnvironmentMissing, TimedOut):
        return ""
    return done.stdout if done.ok else ""
