"""The engine, registry and base image that other tests stand on."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.base import BaseImage, pip_conf
from tests.engine.daemon import Engine
from tests.engine.machine import PROGRAMS, filesystem_of, which, why_no_engine
from tests.engine.network import bridge
from tests.engine.registryserver import Registry
from tests.engine.slots import SLOTS, slot, unheld
from tests.until import until

REPOSITORY = Path(__file__).parents[2]

SESSION = """
import pathlib, sys
from tests.engine import daemon
from tests.engine.slots import slot
with slot(pathlib.Path(sys.argv[1])) as held, daemon.running(held) as engine:
    print(held.number, engine.gateway, engine.docker("info", "--format", "{{.ID}}").stdout.strip(), flush=True)
    sys.stdin.readline()
    print(engine.docker("info", "--format", "{{.ID}}").stdout.strip(), flush=True)
"""


@pytest.mark.engine
def test_the_engine_is_the_tests_own_and_keeps_its_layers_on_a_disk(engine: Engine) -> None:
    root = engine.docker("info", "--format", "{{.DockerRootDir}}").stdout.strip()
    assert root == str(engine.folder / "data")
    assert filesystem_of(Path(root)) != "tmpfs"
    assert engine.docker("images", "-q", "--filter", "reference=nobody-made-this").stdout == ""


@pytest.mark.engine
def test_an_image_is_built_pushed_pulled_by_digest_and_run(
    engine: Engine, base_image: BaseImage, registry: Registry
) -> None:
    reference = registry.reference("first")
    dockerfile = f"FROM {base_image.reference}\nRUN echo hello > /said\n".encode()
    engine.docker("build", "-t", reference, "-", input=dockerfile)
    engine.docker("push", reference)
    engine.docker("rmi", reference)
    pinned = f"{registry.address}/{registry.repository}@{registry.digest('first')}"
    output = engine.docker(
        "run", "--rm", pinned, "python3", "-c", "import sys; print(sys.version_info[:2], open('/said').read())"
    )
    assert output.stdout == "(3, 12) hello\n\n"
    assert registry.tags() == ["first"]


@pytest.mark.engine
def test_concurrent_sessions_have_separate_engines_and_a_killed_one_ends_its_own(engine: Engine) -> None:
    base = engine.folder / "others"
    base.mkdir()
    with session(base) as first, session(base) as second:
        word_lists = [line(child).split() for child in (first, second)]
        assert len({number for number, _, _ in word_lists}) == 2
        assert len({gateway for _, gateway, _ in word_lists} | {engine.gateway}) == 3
        first.kill()
        first.wait()
        assert second.communicate(b"\n", timeout=300)[0].decode().split() == [word_lists[1][2]]
        assert second.returncode == 0
    assert not (base / word_lists[1][0]).exists()
    until(lambda: refuses(base / word_lists[0][0] / "docker.sock"), what="its engine to end")
    for number in range(SLOTS):  # the killed one's is there anyway, and anybody may take its number first
        (base / str(number)).mkdir(exist_ok=True)
        (base / str(number) / "left").touch()
    with slot(base) as again, bridge(again.number) as remade:
        assert list(again.folder.iterdir()) == []
        assert remade.name in links()
        assert [number for number in unheld() if f"xsft-test{number}:" in links()] == []
    assert f"{remade.name}:" not in links()


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            {"PIP_INDEX_URL": "https://user:word@index.example/simple"},
            "index-url = https://user:word@index.example/simple",
        ),
        ({"PIP_TIMEOUT": "7"}, "timeout = 7"),
    ],
)
def test_the_machines_index_settings_become_a_pip_conf(env: dict[str, str], expected: str) -> None:
    text = pip_conf(env)
    assert text.startswith("[global]\n")
    assert expected in text.splitlines()


def refuses(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(address)) == errno.ECONNREFUSED


def session(base: Path) -> subprocess.Popen[bytes]:
    argv = (sys.executable, "-c", SESSION, str(base))
    return subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def line(child: subprocess.Popen[bytes]) -> str:
    assert child.stdout
    return child.stdout.readline().decode()


def links() -> str:
    return subprocess.run((which("ip") or "ip", "-o", "link"), capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("here", "uid", "platform", "words"),
    [
        (set(PROGRAMS), 0, "linux", ""),
        (set(PROGRAMS), 1000, "linux", "needs root"),
        (set(PROGRAMS) - {"dockerd", "docker-registry"}, 0, "linux", "missing here: docker-registry, docker.io"),
        (set(PROGRAMS), 0, "darwin", "needs Linux"),
    ],
)
def test_why_no_engine_names_what_the_machine_lacks(here: set[str], uid: int, platform: str, words: str) -> None:
    why = why_no_engine(has=here.__contains__, uid=uid, platform=platform)
    assert words in why
    assert bool(why) == bool(words)
