"""Builds with a real engine: secrets stay secret, and an interrupted build leaves no image name."""

from __future__ import annotations

import base64
import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.engine.badproxy import BadProxy
from tests.engine.base import BaseImage
from tests.engine.daemon import Engine as RunningEngine
from tests.engine.registryserver import Registry
from tests.engine.steps import built, found_in_image, step
from tests.image.materials import recipe
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Refused, UsageError, XsftError
from xsft.image.build import BuildClient, build_arguments, build_command, find_client, run_build
from xsft.image.engine import Engine, connect_engine
from xsft.image.push import ImageMaker, build_image

needs_engine = pytest.mark.engine
SECRETIVE = """\
ARG BASE
FROM ${BASE}
ARG X=none
LABEL given=$X
COPY data /data
RUN --mount=type=secret,id=pip_conf test -s /run/secrets/pip_conf && sha256sum /run/secrets/pip_conf | cut -c1-8 > /seen
"""
FILLS_THE_DISK = "RUN python3 -c \"import os; os.write(os.open('/dev/full', 1), b'x')\""


@pytest.fixture
def docker(engine: RunningEngine) -> Engine:
    return connect_engine(engine.env)


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
    build_client = find_client(commands(tmp_path, **scripts), also=())
    assert (build_client.path, build_client.buildx) == (str(tmp_path / chosen / "docker"), buildx)


def test_find_client_reports_a_docker_without_buildx(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match=r"28\.2\.2 needs its buildx plugin") as missing:
        find_client(commands(tmp_path, a=NEW_WITHOUT), also=())
    assert missing.value.problem_id == "docker-buildkit-missing"
    assert "docker-buildx" in missing.value.fix


def test_find_client_reports_missing_docker(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing) as missing:
        find_client({"PATH": str(tmp_path), "HOME": str(tmp_path)}, also=())
    assert missing.value.problem_id == "docker-missing"


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/home/me/pip.conf", "id=pip_conf,src=/home/me/pip.conf"),
        ("/home/me/a, b/pip.conf", 'id=pip_conf,"src=/home/me/a, b/pip.conf"'),
        ('/home/me/"a"/pip.conf', 'id=pip_conf,"src=/home/me/""a""/pip.conf"'),
    ],
)
def test_docker_arguments_name_the_file_of_a_secret(tmp_path: Path, path: str, written: str) -> None:
    build_step = step(tmp_path, {}, name="i:1", args={"B": "2", "A": "1"}, labels={"l": "v w"}, pip_config=Path(path))
    assert tuple(build_arguments(build_step)) == (
        "--progress=plain", "--platform", "linux/amd64", "--network", "default", "--tag", "i:1",
        "--build-arg", "A=1", "--build-arg", "B=2", "--label", "l=v w", "--secret", written,
    )  # fmt: skip


def test_the_builder_of_the_environment_is_not_used() -> None:
    """It has none of this engine's images."""
    engine = Engine(host="unix:///none", api=None, env={"BUILDX_BUILDER": "cloud", "DOCKER_HOST": "unix:///none"})
    client = BuildClient(path="docker", version="28.2.2", buildx=True)
    argv, env = build_command(client, engine)
    assert "BUILDX_BUILDER" not in env
    assert argv == ("docker", "buildx", "build", "--builder", "default", "--load")
    argv, env = build_command(BuildClient(path="docker", version="20.10", buildx=False), engine)
    assert (argv, env["DOCKER_BUILDKIT"]) == (("docker", "build"), "1")


@needs_engine
def test_a_build_passes_on_buildkits_lines_and_hides_its_secret(
    docker: Engine, base_image: BaseImage, engine: RunningEngine, tmp_path: Path
) -> None:
    token = secrets.token_hex(24)
    file = tmp_path / 'a, "b"' / "token"
    file.parent.mkdir()
    file.write_text(token)
    build_step = step(
        tmp_path / "context",
        {"data": "some"},
        dockerfile=SECRETIVE,
        name="xsft-test/secret:a",
        args={"X": "a 'quoted' $value", "BASE": base_image.reference},
        labels={"kind": "code", "odd": 'x="y" $z'},
        pip_config=file,
    )
    lines: list[str] = []
    image = built(build_step, docker, on_line=lines.append)
    assert image.labels.items() >= {"kind": "code", "odd": 'x="y" $z', "given": "a 'quoted' $value"}.items()
    assert any("[2/3] COPY data /data" in line for line in lines)
    assert built(build_step, docker, on_line=lines.append).id == image.id
    assert sum(line.endswith("CACHED") for line in lines) >= 2
    assert token not in "".join(lines)
    places = found_in_image(engine, "xsft-test/secret:a", [token, "odd"], folder=tmp_path)
    assert places == ["odd"], "the search finds what is there"
    assert token not in engine.docker("history", "--no-trunc", "xsft-test/secret:a").stdout


@needs_engine
@pytest.mark.parametrize(
    ("dockerfile", "id", "kind", "says"),
    [
        (FILLS_THE_DISK, "disk-full", EnvironmentMissing, "No space left on device"),
        ("RUN echo so it ends; exit 3", "build-failed", EnvironmentMissing, "exit code: 3"),
        ("RUN no-such-python -c 1", "build-failed", EnvironmentMissing, "exit code: 127"),
        ("RUN rm -f /usr/local/bin/python3 /usr/bin/python3; python3 -m pip list", "base-without-python", UsageError,
         "python3: not found"),
        ("COPY nothing /", "context-incomplete", UsageError, "nothing"),
        ("FRM x", "dockerfile-invalid", UsageError, "FRM"),
        ("FROM xsft-tests-nowhere.invalid/base:1", "registry-unreachable", XsftError, "xsft-tests-nowhere.invalid"),
    ],
)  # fmt: skip
def test_a_failed_build_tells_its_cause_in_a_line_after_buildkits_own(
    docker: Engine, base_image: BaseImage, tmp_path: Path,
    dockerfile: str, id: str, kind: type[XsftError], says: str,
) -> None:  # fmt: skip
    build_step = step(
        tmp_path, {}, dockerfile=f"FROM {base_image.reference}\n{dockerfile}\n", name=f"xsft-test/failed:{id}"
    )
    lines: list[str] = []
    with pytest.raises(kind) as failed:
        built(build_step, docker, on_line=lines.append)
    assert failed.value.problem_id == id
    assert says in failed.value.message
    assert "\n" not in failed.value.message
    assert lines
    assert docker.image(build_step.name) is None


@needs_engine
def test_a_private_base_is_pulled_with_the_users_login_before_the_build(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSFT_CACHE_DIR", str(tmp_path / "cache"))
    built(step(tmp_path / "base", {"data": registry.repository}, name=registry.reference("base")), docker)
    docker.api.push(registry.reference("base").rpartition(":")[0], "base", auth_config={})
    bad_proxy.login = f"me:{secrets.token_hex()}"
    auth = base64.b64encode(bad_proxy.login.encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {bad_proxy.address: {"auth": auth}}}))
    (tmp_path / "images").mkdir()
    env = {**docker.env, "DOCKER_CONFIG": str(tmp_path)}
    base = f"{bad_proxy.address}/{registry.repository}@{registry.digest('base')}"
    build_step = step(tmp_path / "deps", {"deps.json": '{"lock_sha256": ""}'}, dockerfile=(
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY deps.json /usr/share/xsft/deps.json\n"
    ))  # fmt: skip
    done = build_image(
        recipe(context=build_step.files, arguments={"BASE_IMAGE": None}, base=base, code=()),
        ImageMaker(images=tmp_path / "images", env=env),
    )
    assert done.deps.outcome == "built"
    assert any(request.login == bad_proxy.login and request.code == 200 for request in bad_proxy.seen)


@needs_engine
def test_a_context_that_changes_during_the_build_leaves_no_image(docker: Engine, tmp_path: Path) -> None:
    build_step = step(tmp_path, {"data": "hashed"}, name="xsft-test/changed:1")
    (tmp_path / "data").write_text("other!")
    with pytest.raises(Refused) as refused:
        built(build_step, docker)
    assert refused.value.problem_id == "context-changed"
    assert docker.image(build_step.name) is None


INTERRUPTED = """
import pickle, sys
from xsft.image.build import run_build
from xsft.image.engine import connect_engine
env, build = pickle.load(open(sys.argv[1], "rb"))
run_build(build, engine=connect_engine(env), on_line=lambda line: print(line, flush=True))
"""


@needs_engine
@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_soon_and_leaves_no_image_name(
    docker: Engine, engine: RunningEngine, base_image: BaseImage, tmp_path: Path, signals: signal.Signals
) -> None:
    import pickle

    dockerfile = f"FROM {base_image.reference}\nRUN echo begun; sleep 600\n"
    name = f"xsft-test/interrupted:{signals.name.lower()}"
    build_step = step(tmp_path / "context", {}, dockerfile=dockerfile, name=name)
    (tmp_path / "asked").write_bytes(pickle.dumps((dict(engine.env), build_step)))
    child = subprocess.Popen(
        (sys.executable, "-c", INTERRUPTED, str(tmp_path / "asked")),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(engine.env),
    )  # fmt: skip
    with child:
        assert any("0." in line and "begun" in line for line in child.stdout or ())
        child.send_signal(signals)
        child.communicate(timeout=200)
    assert child.returncode != 0
    assert docker.image(name) is None


@needs_engine
def test_build_fails_if_the_client_uses_another_engine(docker: Engine, tmp_path: Path) -> None:
    elsewhere = replace(docker, env={**docker.env, "DOCKER_HOST": "unix:///nowhere/docker.sock"})
    with pytest.raises(EnvironmentMissing) as failed:
        run_build(step(tmp_path, {"data": "x"}), engine=elsewhere, on_line=print)
    assert failed.value.problem_id in {"docker-not-running", "docker-failed"}
