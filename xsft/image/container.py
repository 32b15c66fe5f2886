"""Runs a command in a container: passes on its lines, stops it as a child process would be stopped, and removes the
container.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException
from docker.types import LogConfig
from docker.types import Mount as Bind
from msgspec import Struct, field
from requests.exceptions import RequestException

from xsft.base.errors import EnvironmentMissing, Refused
from xsft.image.engine import Engine, explain_engine_errors
from xsft.image.failures import FailedRequest, quote
from xsft.machine.paths import random_hex
from xsft.machine.signals import as_ctrl_c
from xsft.machine.watched_process import keep_lines

SHARED_MEMORY_BYTES = 2 << 30
"""Shared memory in which data workers hand over batches; Docker's 64 MB are too little. Only what is used is
allocated.
"""
FOLDER_LABEL = "dev.xsft.folder"
"""The label with the run's folder on this machine, which identifies the container's run."""


class Mount(Struct, frozen=True, kw_only=True):
    """A file or folder of this machine, at the same path in the container."""

    path: Path
    """Absolute; must exist."""
    writable: bool = False
    at: Path | None = None
    """A different path in the container."""


class ContainerCommand(Struct, frozen=True, kw_only=True):
    """A command for the container, and what it can access of this machine."""

    image: str
    """The name, digest or id of an image in the engine."""
    argv: tuple[str, ...]
    """Replaces the image's own entrypoint and command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the image's own variables."""
    mounts: tuple[Mount, ...] = ()
    workdir: Path = Path("/")
    user: str = ""
    """`uid:gid`; empty: the image's own user."""
    network: bool = True
    """False: loopback only."""
    name: str = ""
    """The start of the container's name, for `docker ps`."""
    labels: Mapping[str, str] = field(default_factory=dict)


def run_in_container(
    command: ContainerCommand, *, engine: Engine, log: Path, on_line: Callable[[str], None], grace_s: float
) -> int:
    """Run to the end; every line is written to `log`, then passed to `on_line`. Returns the exit status, 128 + n for
    signal n.

    If anything is raised meanwhile, above all by Ctrl-C and SIGTERM, the process gets SIGINT, and SIGKILL `grace_s`
    seconds later. The container is removed in any case. Raises EnvironmentMissing if it cannot be started.
    """
    api = engine.api
    request = FailedRequest(what=f"run {command.image}")
    with as_ctrl_c(), _container(api, command, request, grace_s=grace_s) as container:
        with log.open("wb") as log_file, _attach_output(api, container, request) as output:
            _start_container(api, container, command)
            keep_lines(output, log=log_file, on_line=on_line)
        with explain_engine_errors(request):
            return int(api.wait(container, timeout=None)["StatusCode"])


def refuse_where_running(folder: Path, *, engine: Engine) -> None:
    """Raise Refused if a container of this folder's run outlived the xsft that started it; remove one that has
    ended.
    """
    with explain_engine_errors(FailedRequest(what="list its containers")):
        containers = engine.api.containers(all=True, filters={"label": f"{FOLDER_LABEL}={folder}"})
    for container in containers:
        short = container["Id"][:12]
        if container.get("State") in {"running", "paused", "restarting"}:
            raise Refused(
                f"{folder.name} is running now: its container {short} outlived the xsft that started it",
                fix=f"wait for it (docker wait {short}), or stop it: docker stop {short}",
            )
        _remove(engine.api, container["Id"])


@contextmanager
def _container(api: Any, command: ContainerCommand, request: FailedRequest, *, grace_s: float) -> Iterator[str]:
    """Yield a container that is created but not started; it is stopped and removed in any case, also if a second signal
    arrives.
    """
    with explain_engine_errors(request):
        config = _container_config(api, command)
        name = f"{command.name or 'xsft'}-{random_hex(4)}"  # two runs of one name may be in two folders
        container = str(api.create_container_from_config(config, name=name)["Id"])
    try:
        yield container
    finally:
        try:  # a second Ctrl-C skips the wait, not the removal
            with suppress(DockerException, RequestException):  # it has already ended, or did not end in time
                api.kill(container, signal="SIGINT")
                api.wait(container, timeout=grace_s)
        finally:
            _remove(api, container)


@contextmanager
def _attach_output(api: Any, container: str, request: FailedRequest) -> Iterator[Iterator[bytes]]:
    """Yield its output. Attached before it starts, so that no line is lost."""
    with explain_engine_errors(request):
        output = api.attach(container, stdout=True, stderr=True, stream=True, logs=False)
    try:
        yield _explained_output(output, request)
    finally:
        output.close()
        output._response.close()  # noqa: SLF001 - docker@7.2.0: close() shuts the socket and leaves it to the collector


def _explained_output(chunks: Iterable[bytes], request: FailedRequest) -> Iterator[bytes]:
    with explain_engine_errors(request):
        yield from chunks


def _start_container(api: Any, container: str, command: ContainerCommand) -> None:
    try:
        api.start(container)
    except APIError as failed:
        raise EnvironmentMissing(
            f"{command.image} cannot start {command.argv[0]}: {quote(failed.explanation or str(failed))}",
            fix="Use an image for this machine's processor that has it; xsft image build builds one.",
            id="container-not-started",
        ) from None


def _container_config(api: Any, command: ContainerCommand) -> dict[str, Any]:
    mounts = [
        Bind(target=str(mount.at or mount.path), source=str(mount.path), type="bind", read_only=not mount.writable)
        for mount in command.mounts
    ]
    host_config = api.create_host_config(
        mounts=mounts,
        network_mode="default" if command.network else "none",
        shm_size=SHARED_MEMORY_BYTES,
        log_config=LogConfig(type="none"),  # xsft keeps the log beside the run; the engine's copy would fill its disk
        security_opt=["no-new-privileges"],
    )
    config: dict[str, Any] = api.create_container_config(
        image=command.image,
        entrypoint=[command.argv[0]],
        command=list(command.argv[1:]),
        environment=dict(command.env),
        working_dir=str(command.workdir),
        user=command.user or None,
        labels=dict(command.labels),
        host_config=host_config,
    )
    return config


def _remove(api: Any, container: str) -> None:
    """Remove the container; kill it first if it is still running."""
    with suppress(DockerException, RequestException):
        api.remove_container(container, force=True, v=True)
