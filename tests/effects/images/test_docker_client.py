"""Connections to the Docker engine, the errors without one, and the images that it holds."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.daemon import Engine as RunningEngine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from xsft.base.errors import EnvironmentMissing, Unreachable
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_client import connect_engine, error_of, layer_of
from xsft.image.progress import Layer

needs_engine = pytest.mark.engine


def refused(env: dict[str, str]) -> EnvironmentMissing:
    with pytest.raises(EnvironmentMissing) as missing:
        connect_engine(env)
    return missing.value


def test_connect_engine_reports_missing_docker(tmp_path: Path) -> None:
    error = refused({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "PATH": str(tmp_path)})
    assert error.problem_id == "docker-missing"
    assert f"unix://{tmp_path}/docker.sock" in error.message


def test_connect_engine_reports_an_engine_that_is_not_running(tmp_path: Path) -> None:
    (tmp_path / "docker").touch(mode=0o755)
    for host in (f"unix://{tmp_path}/docker.sock", "tcp://127.0.0.1:1"):
        error = refused({"DOCKER_HOST": host, "PATH": str(tmp_path)})
        assert (error.problem_id, error.exit_status) == ("docker-not-running", 3)
        assert "systemctl start docker" in error.fix


def test_connect_engine_reports_permission_denied_on_the_socket(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "docker.sock"))
        listening.listen()
        (tmp_path / "docker.sock").chmod(0o600)
        refused({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})  # what is imported late is imported as root
        os.seteuid(65534)
        try:
            error = refused({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock", "PATH": str(tmp_path)})
        finally:
            os.seteuid(0)
    assert error.problem_id == "docker-permission"
    assert "sudo usermod -aG docker $USER" in error.fix


def test_connect_engine_reports_an_invalid_docker_host() -> None:
    assert refused({"DOCKER_HOST": "nonsense://x"}).problem_id == "docker-not-running"


@pytest.mark.parametrize(
    ("line", "layer"),
    [
        ({"status": "Preparing", "id": "a"}, Layer(id="a", state="waiting")),
        (
            {"status": "Pushing", "id": "a", "progressDetail": {"current": 5, "total": 9}},
            Layer(id="a", state="moving", bytes=5, total=9),
        ),
        (
            {"status": "Pushing", "id": "a", "progressDetail": {"current": 12, "total": 9}},
            Layer(id="a", state="moving", bytes=9, total=9),
        ),
        ({"status": "Pushed", "id": "a"}, Layer(id="a", state="done")),
        ({"status": "Mounted from team/x", "id": "a"}, Layer(id="a", state="done")),
        ({"status": "Layer already exists", "id": "a"}, Layer(id="a", state="exists")),
        ({"status": "Pulling from team/x", "id": "latest"}, None),
        ({"status": "The push refers to repository [x]"}, None),
    ],
)
def test_layer_of_reads_the_state_of_a_pushed_layer(line: dict[str, object], layer: Layer | None) -> None:
    assert layer_of(line) == layer
    assert error_of(line) == ""


@given(st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5) | st.integers()))
def test_layer_of_and_error_of_accept_any_line(line: dict[str, object]) -> None:
    assert layer_of(line) is None or line.get("id")
    assert error_of(line) == str(line.get("error") or "")


@needs_engine
def test_connect_engine_uses_the_docker_context(
    engine: RunningEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "contexts" / "meta" / hashlib.sha256(b"tests").hexdigest()
    folder.mkdir(parents=True)
    endpoint = {"docker": {"Host": engine.host, "SkipTLSVerify": False}}
    (folder / "meta.json").write_text(json.dumps({"Name": "tests", "Metadata": {}, "Endpoints": endpoint}))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "tests"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for env in ({}, {"DOCKER_CONTEXT": "tests"}):
        assert connect_engine(env).host == engine.host
    assert connect_engine({**engine.env, "DOCKER_CONTEXT": "other"}).host == engine.host


@needs_engine
def test_the_engine_finds_images_by_name_id_and_label(
    engine: RunningEngine, registry: Registry, tmp_path: Path
) -> None:
    docker = connect_engine(engine.env)
    assert not docker.rootless
    assert docker.image("xsft-test/none:1") is None
    made = step(tmp_path, {"data": "x"}, labels={"dev.xsft.kind": "held"})
    seen = build(made, engine=docker, client=find_client(engine.env), names=("xsft-test/held:1",))
    assert docker.images(label="dev.xsft.kind=held") == (seen,)
    assert docker.images(label="dev.xsft.kind=other") == ()
    docker.tag("xsft-test/held:1", repository="xsft-test/held", tag="2")
    both = docker.image(seen.id)
    assert both is not None
    assert set(both.tags) == {"xsft-test/held:1", "xsft-test/held:2"}
    with pytest.raises(EnvironmentMissing) as missing:
        docker.tag("xsft-test/none:1", repository="xsft-test/held", tag="3")
    assert missing.value.problem_id == "image-absent"
    with pytest.raises(EnvironmentMissing) as absent:
        docker.pull(registry.reference("none"))
    assert absent.value.problem_id in {"image-absent", "repository-missing"}
    with pytest.raises(Unreachable):
        docker.pull("127.0.0.1:1/team/none:1")
