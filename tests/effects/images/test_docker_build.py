"""Builds with a real engine: secrets stay secret, and an interrupted build leaves no image name."""

from __future__ import annotations

import base64
import io
import json
import secrets
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.engine.badproxy import BadProxy
from tests.engine.base import BaseImage
from tests.engine.daemon import Engine as RunningEngine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, UsageError
from xsft.effects.images import docker_client
from xsft.effects.images.docker_build import BuildClient, arguments, build, find_client
from xsft.effects.images.docker_client import Engine
from xsft.effects.images.docker_login import Credential
from xsft.image.model import BuildStep
from xsft.image.progress import BuildEvent, SentContext, StepDone, StepStarted

needs_engine = pytest.mark.engine
SECRETIVE = """\
ARG BASE
FROM ${BASE}
ARG X=none
LABEL given=$X
COPY data /data
RUN --mount=type=secret,id=token test -s /run/secrets/token && sha256sum /run/secrets/token | cut -c1-8 > /seen
"""


FILLS_THE_DISK = "RUN python3 -c \"import os; os.write(os.open('/dev/full', 1), b'x')\""


@pytest.fixture
def docker(engine: RunningEngine) -> Engine:
    return docker_client.connect_engine(engine.env)


@pytest.fixture
def client(engine: RunningEngine) -> BuildClient:
    return find_client(engine.env)


def commands(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment whose PATH has one folder per name, each with a `docker` that runs the script."""
    for name, script in scripts.items():
        path = folder / name / "docker"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return {"PATH": ":".join(str(folder / name) for name in scripts), "HOME": str(folder)}


def docker_of(version: str, *, buildx: bool) -> str:
    answer = "echo github.com/docker/buildx v0.19" if buildx else "exit 1"
    return f'case "$1" in --version) echo "Docker version {version}, build 1";; buildx) {answer};; esac'


OLD, NEW, NEW_WITHOUT = (
    docker_of("20.10.24+dfsg1", buildx=False), docker_of("28.2.2", buildx=True), docker_of("28.2.2", buildx=False)
)  # fmt: skip


@pytest.mark.parametrize(
    ("scripts", "chosen", "buildx"),
    [
        ({"a": NEW, "b": OLD}, "a", True),
        ({"a": NEW_WITHOUT, "b": OLD}, "b", False),
        ({"a": "echo podman version 4", "b": NEW}, "b", True),
        ({"a": OLD, "b": NEW}, "a", False),
    ],
    ids=["new first", "new without buildx", "podman first", "old first"],
)
def test_find_client_returns_the_first_docker_that_can_build(
    tmp_path: Path, scripts: Mapping[str, str], chosen: str, buildx: bool
) -> None:
    found = find_client(commands(tmp_path, **scripts), also=())
    assert (found.path, found.buildx) == (str(tmp_path / chosen / "docker"), buildx)


def test_find_client_reports_a_docker_without_buildx(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match=r"28\.2\.2 needs its buildx plugin") as missing:
        find_client(commands(tmp_path, a=NEW_WITHOUT), also=())
    assert missing.value.problem_id == "docker-buildkit-missing"
    assert "docker-buildx" in missing.value.fix


def test_find_client_reports_missing_docker(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing) as missing:
        find_client({"PATH": str(tmp_path), "HOME": str(tmp_path)}, also=())
    assert missing.value.problem_id == "docker-missing"


def test_docker_arguments_contain_secret_file_names_but_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(secrets.token_hex())
    made = step(tmp_path, {}, args={"B": "2", "A": "1"}, labels={"l": "v w"}, secrets={"t": tmp_path / "token"})
    told = tuple(arguments(made, names=("i:1", "i:2")))
    assert told == (
        "--progress=plain", "--file", "Dockerfile", "--platform", "linux/amd64", "--network", "default",
        "--tag", "i:1", "--tag", "i:2",
        "--build-arg", "A=1", "--build-arg", "B=2", "--label", "l=v w",
        "--secret", f"id=t,src={tmp_path / 'token'}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/home/me/pip.conf", "id=t,src=/home/me/pip.conf"),
        ("/home/me/a, b/pip.conf", 'id=t,"src=/home/me/a, b/pip.conf"'),
        ('/home/me/"a"/pip.conf', 'id=t,"src=/home/me/""a""/pip.conf"'),
    ],
)
def test_a_path_of_a_secret_with_special_characters_is_quoted(tmp_path: Path, path: str, told: str) -> None:
    assert tuple(arguments(step(tmp_path, {}, secrets={"t": Path(path)}), names=()))[-1] == told


@needs_engine
def test_a_build_reports_its_events(
    docker: Engine, client: BuildClient, base_image: BaseImage, engine: RunningEngine, tmp_path: Path
) -> None:
    token = secrets.token_hex(24)
    file = tmp_path / 'a, "b"' / "token"
    file.parent.mkdir()
    file.write_text(token)
    made = step(
        tmp_path / "context",
        {"data": "some"},
        dockerfile=SECRETIVE,
        args={"X": "a 'quoted' $value", "BASE": base_image.reference},
        labels={"kind": "code", "odd": 'x="y" $z'},
        secrets={"token": file},
    )
    events: list[BuildEvent] = []
    seen = build(
        made, engine=docker, client=client, names=("xsft-test/secret:a", "xsft-test/secret:b"), on_event=events.append
    )
    assert seen.labels.items() >= {"kind": "code", "odd": 'x="y" $z', "given": "a 'quoted' $value"}.items()
    assert set(seen.tags) == {"xsft-test/secret:a", "xsft-test/secret:b"}
    assert seen.platform == "linux/amd64"
    numbers = [(event.number, event.total) for event in events if isinstance(event, StepStarted) and event.number]
    assert numbers == [(1, 3), (2, 3), (3, 3)]
    assert [event for event in events if isinstance(event, SentContext)][-1].bytes == len("some") + len(SECRETIVE)
    assert {event.outcome for event in events if isinstance(event, StepDone)} <= {"done", "cached"}
    assert docker.image("xsft-test/secret:a") == seen
    again: list[BuildEvent] = []
    assert build(made, engine=docker, client=client, names=("xsft-test/secret:a",), on_event=again.append).id == seen.id
    outcomes = [event.outcome for event in again if isinstance(event, StepDone)]
    assert outcomes.count("cached") >= 2
    nowhere_in(token, engine, "xsft-test/secret:a", tmp_path)


def nowhere_in(token: str, engine: RunningEngine, image: str, folder: Path) -> None:
    """Every layer, the configuration and the history."""
    engine.docker("save", "--output", str(folder / "saved.tar"), image)
    searched = 0
    with tarfile.open(folder / "saved.tar") as saved:
        for member in saved.getmembers():
            content = saved.extractfile(member).read() if member.isfile() else b""  # type: ignore[union-attr]
            assert token.encode() not in content, member.name
            if member.name.endswith("layer.tar") or member.name.startswith("blobs/"):
                searched += 1
                assert_not_in_files(token, content)
    assert searched >= 3
    assert token not in engine.docker("history", "--no-trunc", image).stdout
    assert token not in json.dumps(engine.docker("inspect", image).stdout)


def assert_not_in_files(token: str, layer: bytes) -> None:
    try:
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            for file in files.getmembers():
                if file.isreg():
                    assert token.encode() not in files.extractfile(file).read(), file.name  # type: ignore[union-attr]
    except tarfile.ReadError:
        return  # not a layer: a configuration


@needs_engine
@pytest.mark.parametrize(
    ("dockerfile", "id", "kind", "says"),
    [
        (FILLS_THE_DISK, "disk-full", EnvironmentMissing, "docker system df"),
        ("RUN echo so it ends; exit 3", "build-failed", EnvironmentMissing, "so it ends"),
        ("RUN no-such-python -c 1", "build-failed", EnvironmentMissing, "not found"),
        ("COPY nothing /", "context-incomplete", UsageError, "nothing"),
        ("FRM x", "dockerfile-invalid", UsageError, "FRM"),
        ("FROM xsft-tests-nowhere.invalid/base:1", "registry-unreachable", Exception, "xsft-tests-nowhere.invalid"),
    ],
)  # fmt: skip
def test_a_failed_build_reports_its_step_and_the_fix(
    docker: Engine, client: BuildClient, base_image: BaseImage, tmp_path: Path,
    dockerfile: str, id: str, kind: type[Exception], says: str,
) -> None:  # fmt: skip
    made = step(tmp_path, {}, dockerfile=f"FROM {base_image.reference}\n{dockerfile}\n")
    name = f"xsft-test/failed:{id}"
    with pytest.raises(kind) as failed:
        build(made, engine=docker, client=client, names=(name,))
    error = failed.value
    assert error.problem_id == id  # type: ignore[attr-defined]
    assert says in f"{error} {error.fix}"  # type: ignore[attr-defined]
    assert docker.image(name) is None


@needs_engine
def test_a_base_without_python_is_reported(
    docker: Engine, client: BuildClient, base_image: BaseImage, tmp_path: Path
) -> None:
    dockerfile = (
        f"FROM {base_image.reference}\nRUN rm -f /usr/local/bin/python3 /usr/bin/python3; python3 -m pip list\n"
    )
    with pytest.raises(UsageError) as failed:
        build(step(tmp_path, {}, dockerfile=dockerfile), engine=docker, client=client, names=("xsft-test/nopython:1",))
    assert failed.value.problem_id == "base-without-python"


@needs_engine
@pytest.mark.parametrize("whose", ["given", "own"])
def test_a_private_base_is_pulled_with_the_login(
    docker: Engine, client: BuildClient, bad_proxy: BadProxy, registry: Registry, tmp_path: Path, whose: str
) -> None:
    made = step(tmp_path / "base", {"data": registry.repository})
    build(made, engine=docker, client=client, names=(registry.reference("base"),))
    docker.api.push(registry.reference("base").rpartition(":")[0], "base", auth_config={})
    password = secrets.token_hex()
    bad_proxy.login = f"me:{password}"
    (tmp_path / "config.json").write_text(
        json.dumps({"auths": {bad_proxy.address: {"auth": encoded(bad_proxy.login)}}})
    )
    above = step(tmp_path / "above", {"more": "x"}, dockerfile=f"FROM {bad_proxy.address}/{registry.repository}:base\n")
    engine = replace(docker, env={**docker.env, "DOCKER_CONFIG": str(tmp_path)} if whose == "own" else docker.env)
    logins = (Credential(host=bad_proxy.address, user="me", secret=password),) if whose == "given" else ()
    build(above, engine=engine, client=client, names=("xsft-test/above:1",), logins=logins)
    assert any(request.login == bad_proxy.login and request.code == 200 for request in bad_proxy.seen)


def encoded(login: str) -> str:
    return base64.b64encode(login.encode()).decode()


@needs_engine
def test_a_context_that_changes_during_the_build_leaves_no_image(
    docker: Engine, client: BuildClient, tmp_path: Path
) -> None:
    made = step(tmp_path, {"data": "hashed"})
    (tmp_path / "data").write_text("other!")
    with pytest.raises(Refused) as refused:
        build(made, engine=docker, client=client, names=("xsft-test/changed:1",))
    assert refused.value.problem_id == "context-changed"
    assert docker.image("xsft-test/changed:1") is None


INTERRUPTED = """
import pickle, sys
from xsft.effects.images import docker_client
from xsft.effects.images.docker_build import build, find_client
env, step, name = pickle.load(open(sys.argv[1], "rb"))
engine = docker_client.connect_engine(env)
build(step, engine=engine, client=find_client(env), names=(name,), on_event=lambda event: print(event, flush=True))
"""


@needs_engine
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_soon_and_leaves_no_image_name(
    docker: Engine, engine: RunningEngine, base_image: BaseImage, tmp_path: Path, sent: signal.Signals
) -> None:
    import pickle

    made = step(tmp_path / "context", {}, dockerfile=f"FROM {base_image.reference}\nRUN echo begun; sleep 600\n")
    name, temporary = f"xsft-test/interrupted:{sent.name.lower()}", tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "asked").write_bytes(pickle.dumps((dict(engine.env), made, name)))
    child = subprocess.Popen(
        (sys.executable, "-c", INTERRUPTED, str(tmp_path / "asked")),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**engine.env, "TMPDIR": str(temporary)},
    )  # fmt: skip
    with child:
        assert any("begun" in line and "StepLine" in line for line in child.stdout or ())
        assert [path.name[:12] for path in temporary.iterdir()] == ["xsft-docker-"]
        child.send_signal(sent)
        child.communicate(timeout=200)
    assert child.returncode != 0
    assert docker.image(name) is None
    assert list(temporary.iterdir()) == []


@needs_engine
def test_build_fails_if_the_client_uses_another_engine(docker: Engine, client: BuildClient, tmp_path: Path) -> None:
    made = step(tmp_path, {"data": "x"})
    elsewhere = replace(docker, env={**docker.env, "DOCKER_HOST": "unix:///nowhere/docker.sock"})
    with pytest.raises(EnvironmentMissing) as failed:
        build(made, engine=elsewhere, client=client, names=("xsft-test/elsewhere:1",))
    assert failed.value.problem_id in {"docker-not-running", "docker-failed"}


def test_a_build_step_defaults_to_linux_amd64() -> None:
    assert BuildStep(name="deps", tag="deps-1", dockerfile="Dockerfile", files=()).platform == "linux/amd64"
