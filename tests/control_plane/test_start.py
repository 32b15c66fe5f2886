"""A failed start leaves nothing; processes end with their owner, and no others end."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.control_plane.api import StartFailed
from tests.control_plane.components import PORTS
from tests.control_plane.ports import HIGHEST, LOWEST, free_ports
from tests.control_plane.processes import Command, Process, Spawner, born
from tests.control_plane.start import up
from tests.control_plane.tools import Tools
from tests.stories import ROOT
from tests.until import until

pytestmark = pytest.mark.loopback

LISTENS = """\
import re, socket, sys, time
port = re.search("--listen-client-urls=http:[^:]+:([0-9]+)", " ".join(sys.argv))[1]
held = socket.create_server(("127.0.0.1", int(port)))
time.sleep(20)
"""


def fakes(folder: Path, **scripts: str) -> Tools:
    """Programs that note their process id and run a line of shell."""
    (folder / "bin").mkdir()
    for name, script in scripts.items():
        program = folder / "bin" / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\necho $$ >> {folder}/pids\n{script}\n")
        program.chmod(0o755)
    return Tools(folder)


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


def test_a_component_that_ends_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    etcd = f"exec {sys.executable} -c '{LISTENS}' \"$@\""
    tools = fakes(tmp_path, etcd=etcd, kube_apiserver="echo boom: no such flag; exit 1")
    with pytest.raises(StartFailed, match=r"kube-apiserver has ended; the end of its log:\nboom: no such flag"):
        up(tmp_path / "cluster", tools=tools, name="x", progress=lambda _: None)
    assert [born(pid) for pid in pids(tmp_path)] == [None, None]
    assert not (tmp_path / "cluster").exists()


def test_a_start_whose_port_is_taken_is_tried_again(tmp_path: Path) -> None:
    tools = fakes(tmp_path, etcd="echo listen tcp: address already in use; exit 1")
    with pytest.raises(StartFailed, match="etcd has ended"):
        up(tmp_path / "cluster", tools=tools, name="x", progress=lambda _: None)
    assert len(pids(tmp_path)) == 3


@pytest.mark.skipif(not shutil.which("setpriv"), reason="NOT RUN: needs setpriv (Linux, util-linux)")
def test_a_bound_process_dies_with_its_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tests.control_plane.processes import Command, Spawner\n"
        "spawner = Spawner(folder=Path(sys.argv[1]), bound=True, children={})\n"
        "print(spawner.spawn(Command(name='s', argv=('sleep', '60'), env={})).pid, flush=True); time.sleep(60)"
    )
    argv = (sys.executable, "-c", program, str(tmp_path))
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        until(lambda: _program(pid) == "sleep", what="setpriv to become it")
        parent.kill()
    until(lambda: born(pid) is None, what="it to die", within_s=10)


@pytest.mark.skipif(not shutil.which("setpriv"), reason="NOT RUN: needs setpriv (Linux, util-linux)")
def test_a_bound_process_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    spawner = Spawner(folder=tmp_path, bound=True, children={})
    with ThreadPoolExecutor(1) as passing:
        started = passing.submit(spawner.spawn, Command(name="s", argv=("sleep", "60"), env={})).result()
        other = passing.submit(subprocess.Popen, ("setpriv", "--pdeathsig", "KILL", "sleep", "60")).result()
        for pid in (started.pid, other.pid):
            until(lambda pid=pid: _program(pid) == "sleep", what="setpriv to become it")
    assert other.wait(60) == -signal.SIGKILL, "the thread is gone"
    assert started.alive
    spawner.end(started)


def _program(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()


def test_a_process_born_at_another_time_is_left_alone(tmp_path: Path) -> None:
    spawner = Spawner(folder=tmp_path, bound=False, children={})
    ours = spawner.spawn(Command(name="s", argv=("sleep", "60"), env={}))
    spawner.end(Process(pid=ours.pid, born="another time"), with_signal=signal.SIGKILL)
    assert ours.alive
    spawner.end(ours)
    assert not ours.alive


def test_free_ports_are_distinct_and_below_those_of_clients() -> None:
    ports = free_ports(PORTS)
    assert list(ports) == list(PORTS)
    assert len(set(ports.values())) == len(PORTS)
    assert all(LOWEST <= port < HIGHEST for port in ports.values())
