"""A command in a container: its lines passed on, stopped as a child process would be, gone at the end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from xsft.effects.images.docker_client import Engine, told
from xsft.effects.machine.log_lines import keep
from xsft.effects.machine.signals import raised
from xsft.errors import EnvironmentMissing, Refused
from xsft.image.docker_errors import Doing, words

SHARED_MEMORY_BYTES = 2 << 30
"""Of memory that data workers hand over batches in; Docker's 64 MB are too little. Only what is used is taken."""
FOLDER_LABEL = "dev.xsft.folder"
"""The run's folder on this machine: whose container it is."""


class Mount(Struct, frozen=True, kw_only=True):
    """A file or folder of this machine, under the same path in the container."""

    path: Path
    """Absolute, and there."""
    writable: bool = False
    at: Path | None = None
    """Another path in the container."""


class Command(Struct, frozen=True, kw_only=True):
    """What runs in the container, and what it sees of this machine."""

    image: str
    """Name, digest or id of an image that the engine holds."""
    argv: tuple[str, ...]
    """Instead of the image's own entrypoint and command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Over the image's own."""
    mounts: tuple[Mount, ...] = ()
    workdir: Path = Path("/")
    user: str = ""
    """`uid:gid`; empty: the image's own."""
    network: bool = True
    """Without: loopback alone."""
    name: str = ""
    """How its name begins, for `docker ps`."""
    labels: Mapping[str, str] = field(default_factory=dict)


def run_in_container(
    command: Command, *, engine: Engine, log: Path, on_line: Callable[[str], None], grace_s: float
) -> int:
    """Run to the end; every line goes to `log`, then to `on_line`. The exit status, 128 + n for signal n.

    When anything is raised meanwhile, Ctrl-C and SIGTERM above all, the process gets SIGINT, and SIGKILL `grace_s`
    seconds later. The container is removed in any case. Raises EnvironmentMissing where it cannot be started.
    """
    api, doing = engine.api, Doing(what=f"run {command.image}")
    with raised(_interrupted), _container(api, command, doing, grace_s=grace_s) as made:
        with log.open("wb") as kept, _attached(api, made, doing) as output:
            _start(api, made, command)
            keep(output, log=kept, on_line=on_line)
        with told(doing):
            return int(api.wait(made, timeout=None)["StatusCode"])


def refuse_where_running(folder: Path, *, engine: Engine) -> None:
    """Raises Refused where a container of this folder's run outlived the xsft that started it; one that has ended is
    removed.
    """
    with told(Doing(what="list its containers")):
        left = engine.api.containers(all=True, filters={"label": f"{FOLDER_LABEL}={folder}"})
    for container in left:
        if container.get("State") in {"running", "paused", "restarting"}:
            raise Refused(
                f"{folder.name} is running now: its container {container['Id'][:12]} outlived the xsft that started it",
                fix=f"wait for it (docker wait {container['Id'][:12]}), or stop it: docker stop {container['Id'][:12]}",
            )
        _remove(engine.api, container["Id"])


@contextmanager
def _container(api: Any, command: Command, doing: Doing, *, grace_s: float) -> Iterator[str]:
    """Made, not started; ended and removed whatever happens, a second signal meanwhile included."""
    with told(doing):
        made = str(api.create_container_from_config(_config(api, command), name=_name(command))["Id"])
    try:
        yield made
    finally:
        _end(api, made, grace_s=grace_s)


@contextmanager
def _attached(api: Any, container: str, doing: Doing) -> Iterator[Iterator[bytes]]:
    """What it will print; before it starts, so that nothing is missed."""
    with told(doing):
        output = api.attach(container, stdout=True, stderr=True, stream=True, logs=False)
    try:
        yield _told(output, doing)
    finally:
        output.close()
        output._response.close()  # noqa: SLF001 - docker@7.2.0: close() shuts the socket and leaves it to the collector


def _told(chunks: Iterable[bytes], doing: Doing) -> Iterator[bytes]:
    with told(doing):
        yield from chunks


def _start(api: Any, container: str, command: Command) -> None:
    from docker.errors import APIError

    try:
        api.start(container)
    except APIError as failed:
        raise EnvironmentMissing(
            f"{command.image} cannot start {command.argv[0]}: {words(failed.explanation or str(failed))}",
            fix="Take an image for this machine's processor that has it: xsft image build makes one.",
            id="container-not-started",
        ) from None


def _config(api: Any, command: Command) -> dict[str, Any]:
    from docker.types import LogConfig

    host = api.create_host_config(
        mounts=[_mount(one) for one in command.mounts],
        network_mode="default" if command.network else "none",
        shm_size=SHARED_MEMORY_BYTES,
        log_config=LogConfig(type="none"),  # ours is kept beside the run; the engine's would fill its disk
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
        host_config=host,
    )
    return config


def _mount(mount: Mount) -> Any:
    from docker.types import Mount as Bind

    at = mount.at or mount.path
    return Bind(target=str(at), source=str(mount.path), type="bind", read_only=not mount.writable)


def _end(api: Any, container: str, *, grace_s: float) -> None:
    """SIGINT, then SIGKILL; a second Ctrl-C skips the wait. It is gone when this returns."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        with suppress(DockerException, RequestException):  # it has ended already, or did not in time
            api.kill(container, signal="SIGINT")
            api.wait(container, timeout=grace_s)
    finally:
        _remove(api, container)


def _remove(api: Any, container: str) -> None:
    """Kills it first where it still runs."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    with suppress(DockerException, RequestException):
        api.remove_container(container, force=True, v=True)


def _name(command: Command) -> str:
    """Unique: two runs of one name may lie in two folders."""
    return f"{command.name or 'xsft'}-{uuid.uuid4().hex[:8]}"


def _interrupted(_number: int) -> KeyboardInterrupt:
    """SIGTERM and SIGHUP end the run in order, as Ctrl-C does: nobody else would stop the container."""
    return KeyboardInterrupt()
