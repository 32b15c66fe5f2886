"""A dockerd of the tests' own. The machine's is never asked, nor is anything of it changed.

dockerd runs as process 1 of a PID namespace and in a mount namespace: when the test session ends, however it ends, the
kernel kills every container with it, and every overlay mount is gone. Facts: infra study §6.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engine.children import Child, start
from tests.engine.client import building_client
from tests.engine.machine import search_path
from tests.engine.network import Bridge, bridge
from tests.engine.slots import Slot

UP_WITHIN_S = 300.0
COMMAND_WITHIN_S = 500.0

PRIVATE_FOLDERS = """
for folder in /etc/docker /run/containerd /run/docker; do mkdir -p $folder && mount -t tmpfs tmpfs $folder; done
exec "$@"
"""
"""What dockerd and containerd read and write outside the folders they are told: the machine's stay untouched."""


@dataclass(frozen=True)
class Engine:
    """A running engine; `docker` talks to it and to no other."""

    host: str
    """For DOCKER_HOST, e.g. `unix:///…/docker.sock`."""
    gateway: str
    """Address of this machine as builds and containers see it."""
    folder: Path
    """On a disk; for what a test must keep there (contexts of gigabytes)."""
    client: str
    """A docker client that can build with BuildKit."""
    env: Mapping[str, str]
    """Whole environment for a client: DOCKER_HOST, an empty DOCKER_CONFIG of its own, PATH, HOME; nothing else."""

    def docker(
        self, *arguments: str, input: bytes | None = None, env: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run `docker ARGUMENTS`. Raises AssertionError with what it said where it fails, unless `check` is false."""
        done = subprocess.run(
            (self.client, *arguments),
            input=input,
            env={**self.env, **(env or {})},
            capture_output=True,
            timeout=COMMAND_WITHIN_S,
            check=False,
        )
        completed = subprocess.CompletedProcess(done.args, done.returncode, _text(done.stdout), _text(done.stderr))
        assert not check or completed.returncode == 0, (
            f"{completed.args}: {completed.returncode}\n{completed.stdout}{completed.stderr}"
        )
        return completed


@contextmanager
def running(slot: Slot) -> Iterator[Engine]:
    """An engine in `slot`, stopped at the end. Raises DidNotStart."""
    with bridge(slot.number) as network:
        socket = slot.folder / "docker.sock"
        child = start(_argv(slot.folder, network), log=slot.folder / "dockerd.log")
        try:
            engine = _engine(slot.folder, network, socket)
            child.wait_until(lambda: engine.docker("version", check=False).returncode == 0, within_s=UP_WITHIN_S)
            yield engine
        finally:
            _stop(child)


def _argv(folder: Path, network: Bridge) -> tuple[str, ...]:
    config = folder / "daemon.json"
    config.write_text(json.dumps({}), encoding="utf-8")  # else the machine's /etc/docker/daemon.json is read
    namespaces = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    return (*namespaces, "sh", "-c", PRIVATE_FOLDERS, "sh", *_dockerd(folder, network, config))


def _dockerd(folder: Path, network: Bridge, config: Path) -> Sequence[str]:
    options = {
        "config-file": config,
        "host": f"unix://{folder}/docker.sock",
        "data-root": folder / "data",
        "exec-root": folder / "exec",  # must be absolute
        "pidfile": folder / "dockerd.pid",
        "bridge": network.name,
        "mtu": network.mtu,
        "iptables": "false",
        "ip6tables": "false",
    }
    return ("dockerd", *(f"--{name}={value}" for name, value in options.items()))


def _engine(folder: Path, network: Bridge, socket: Path) -> Engine:
    home = folder / "home"
    (home / ".docker").mkdir(parents=True)
    env = {
        "PATH": search_path(),
        "HOME": str(home),
        "DOCKER_HOST": f"unix://{socket}",
        "DOCKER_CONFIG": str(home / ".docker"),
        "DOCKER_BUILDKIT": "1",
    }
    return Engine(host=env["DOCKER_HOST"], gateway=network.gateway, folder=folder, client=building_client(), env=env)


def _stop(child: Child) -> None:
    """Kill the namespace: nothing of it is to be kept, and a polite stop would wait for every container."""
    child.process.kill()
    child.process.wait()


def _text(output: bytes) -> str:
    return output.decode(errors="replace")
