"""A real container runs like a child process: lines, exit status, signals; and no container is left."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.base import BaseImage
from tests.engine.daemon import Engine as RunningEngine
from tests.replacing import replace
from tests.until import until
from xsft.base.errors import EnvironmentMissing, Refused
from xsft.image.container import (
    FOLDER_LABEL,
    SHARED_MEMORY_BYTES,
    ContainerCommand,
    Mount,
    refuse_where_running,
    run_in_container,
)
from xsft.image.engine import Engine, connect_engine

pytestmark = pytest.mark.engine


@pytest.fixture
def docker(engine: RunningEngine) -> Engine:
    return connect_engine(engine.env)


@pytest.fixture
def shell(docker: Engine, base_image: BaseImage, tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Runs a shell script in a container; its status and lines."""

    def run(script: str, **more: object) -> tuple[int, list[str]]:
        lines: list[str] = []
        command = replace(ContainerCommand(image=base_image.reference, argv=("sh", "-c", script)), **more)  # type: ignore[arg-type]
        status = run_in_container(command, engine=docker, log=tmp_path / "log", on_line=lines.append, grace_s=2)
        return status, lines

    return run


def left(docker: Engine) -> list[str]:
    return [container["Names"][0] for container in docker.api.containers(all=True)]


def test_a_container_run_returns_the_lines_and_exit_status_of_its_command(
    shell: Callable[..., tuple[int, list[str]]], docker: Engine, tmp_path: Path
) -> None:
    status, lines = shell('echo one; echo two >&2; sleep 0.2; printf "%s" "$GIVEN"; exit 7', env={"GIVEN": "a 'b' $c"})
    assert (status, sorted(lines)) == (7, ["a 'b' $c", "one", "two"])
    assert sorted((tmp_path / "log").read_text().splitlines()) == ["a 'b' $c", "one", "two"]
    assert left(docker) == []


def test_a_container_run_returns_20000_lines_in_order(shell: Callable[..., tuple[int, list[str]]]) -> None:
    _, lines = shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    assert lines == [f"line {number}" for number in range(20_000)]


def test_a_command_killed_by_a_signal_returns_128_plus_the_signal(shell: Callable[..., tuple[int, list[str]]]) -> None:
    status, lines = shell("sh -c 'kill -TERM $$'; echo $?; sh -c 'kill -KILL $$'")
    assert status == 137
    assert "143" in lines


def test_mounts_are_read_and_written_as_the_calling_user(
    shell: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    (tmp_path / "read").write_text("text")
    (tmp_path / "write").mkdir(mode=0o777)
    (tmp_path / "write").chmod(0o777)
    mounts = (Mount(path=tmp_path / "read"), Mount(path=tmp_path / "write", writable=True))
    script = (
        f"cat {tmp_path}/read; echo; touch {tmp_path}/write/made; (echo x > {tmp_path}/read) 2>&1; ls {tmp_path}; pwd"
    )
    _, lines = shell(script, mounts=mounts, user="1234:2345", workdir=tmp_path)
    assert lines[0] == "text"
    assert any("Read-only file system" in line or "Permission denied" in line for line in lines)
    assert lines[-3:] == ["read", "write", str(tmp_path)]
    written_file = (tmp_path / "write" / "made").stat()
    assert (written_file.st_uid, written_file.st_gid) == (1234, 2345)
    assert (tmp_path / "read").read_text() == "text"


def test_a_container_without_network_has_only_loopback(shell: Callable[..., tuple[int, list[str]]]) -> None:
    _, alone = shell("ls /sys/class/net", network=False)
    assert alone == ["lo"]
    _, connected = shell("ls /sys/class/net")
    assert len(connected) > 1


def test_a_container_has_shared_memory_and_no_new_privileges(shell: Callable[..., tuple[int, list[str]]]) -> None:
    _, lines = shell("stat -f -c '%b %S' /dev/shm; grep NoNewPrivs /proc/self/status")
    blocks, size = map(int, lines[0].split())
    assert blocks * size == SHARED_MEMORY_BYTES
    assert lines[1].split() == ["NoNewPrivs:", "1"]


def test_an_error_in_on_line_stops_the_container_of_which_the_engine_keeps_no_log(
    docker: Engine, base_image: BaseImage, tmp_path: Path
) -> None:
    drivers: list[str] = []

    def fail(line: str) -> None:
        (running,) = docker.api.containers()
        drivers.append(docker.api.inspect_container(running["Id"])["HostConfig"]["LogConfig"]["Type"])
        raise OSError(line)

    command = ContainerCommand(image=base_image.reference, argv=("sh", "-c", "echo now; sleep 600"))
    started = time.monotonic()
    with pytest.raises(OSError, match="now"):
        run_in_container(command, engine=docker, log=tmp_path / "log", on_line=fail, grace_s=1)
    assert time.monotonic() - started < 300
    assert (drivers, left(docker)) == (["none"], [])


def test_a_command_or_image_that_does_not_exist_is_reported(
    shell: Callable[..., tuple[int, list[str]]], docker: Engine
) -> None:
    with pytest.raises(EnvironmentMissing, match="no-such-program") as missing:
        shell("", argv=("no-such-program",))
    assert missing.value.problem_id == "container-not-started"
    with pytest.raises(EnvironmentMissing) as absent:
        shell("", image="xsft-test/nothing:1")
    assert absent.value.problem_id == "image-absent"
    assert left(docker) == []


CHILD = """
import pickle, sys
from pathlib import Path
from xsft.image.engine import connect_engine
from xsft.image.container import run_in_container
env, command, log, grace_s = pickle.load(open(sys.argv[1], "rb"))
engine = connect_engine(env)
run_in_container(command, engine=engine, log=log, on_line=lambda line: print(line, flush=True), grace_s=grace_s)
"""

POLITE = """
import signal, sys, time
def stop(*_):
    open("ended", "w").write("in order"); sys.exit(0)
signal.signal(signal.SIGINT, stop)
print("ready", flush=True)
time.sleep(600)
"""


def in_a_child(docker: Engine, command: ContainerCommand, folder: Path, *, grace_s: float = 3) -> subprocess.Popen[str]:
    """Another xsft, whose container is running when this returns."""
    (folder / "asked").write_bytes(pickle.dumps((dict(docker.env), command, folder / "log", grace_s)))
    child = subprocess.Popen(
        (sys.executable, "-c", CHILD, str(folder / "asked")),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_command_and_the_container_is_removed(
    docker: Engine, base_image: BaseImage, tmp_path: Path, signals: signal.Signals
) -> None:
    command = ContainerCommand(
        image=base_image.reference, argv=("python3", "-c", POLITE), workdir=tmp_path,
        user=f"{os.getuid()}:{os.getgid()}",
        mounts=(Mount(path=tmp_path, writable=True),),
    )  # fmt: skip
    with in_a_child(docker, command, tmp_path, grace_s=120) as child:
        child.send_signal(signals)
        child.communicate(timeout=100)
    assert child.returncode != 0
    assert (tmp_path / "ended").read_text() == "in order"
    assert left(docker) == []


def test_a_command_that_ignores_sigint_is_killed_after_the_grace_period(
    docker: Engine, base_image: BaseImage, tmp_path: Path
) -> None:
    command = ContainerCommand(image=base_image.reference, argv=("sh", "-c", "trap '' INT; echo ready; sleep 600"))
    with in_a_child(docker, command, tmp_path) as child:
        started = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
    assert time.monotonic() - started > 2.5
    assert left(docker) == []


STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, lambda *_: open("told", "w").close())
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_skips_the_grace_period_and_leaves_no_container(
    docker: Engine, base_image: BaseImage, tmp_path: Path, signals: signal.Signals
) -> None:
    tmp_path.chmod(0o777)
    mounts = (Mount(path=tmp_path, writable=True),)
    command = ContainerCommand(
        image=base_image.reference, argv=("python3", "-c", STUBBORN), workdir=tmp_path, mounts=mounts
    )
    with in_a_child(docker, command, tmp_path, grace_s=120) as child:
        child.send_signal(signal.SIGTERM)
        until((tmp_path / "told").exists)
        child.send_signal(signals)
        child.communicate(timeout=100)
    assert left(docker) == []


def test_a_container_that_outlived_its_xsft_blocks_a_second_one(
    docker: Engine, base_image: BaseImage, tmp_path: Path
) -> None:
    command = ContainerCommand(
        image=base_image.reference, argv=("sh", "-c", "echo ready; sleep 600"), labels={FOLDER_LABEL: str(tmp_path)}
    )
    with in_a_child(docker, command, tmp_path) as child:
        child.kill()
    with pytest.raises(Refused, match="outlived") as refused:
        refuse_where_running(tmp_path, engine=docker)
    refuse_where_running(tmp_path / "other", engine=docker)
    container = refused.value.fix.rpartition(" ")[2]
    docker.api.kill(container)
    docker.api.wait(container)
    refuse_where_running(tmp_path, engine=docker)
    assert left(docker) == []
