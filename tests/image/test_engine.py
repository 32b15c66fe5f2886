"""Connections to the Docker engine, the errors without one, and images that are pushed and pulled."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine.badproxy import BadProxy, Fault
from tests.engine.daemon import Engine as RunningEngine
from tests.engine.registryserver import Registry
from tests.engine.steps import built, noise, step
from tests.replacing import replace
from xsft.base.errors import EnvironmentMissing, Unreachable, XsftError
from xsft.image.engine import Engine, connect_engine, follow_transfer
from xsft.image.failures import FailedRequest
from xsft.image.login import GOOGLE_USER, Login

needs_engine = pytest.mark.engine
MANIFEST = "^PUT /v2/.*/manifests/"
UPLOAD = "^(PATCH|PUT) /v2/.*/blobs/uploads/"
PUBLIC = "us-docker.pkg.dev/somebody/public/image:1"


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
    for host in (f"unix://{tmp_path}/docker.sock", "tcp://127.0.0.1:1", "nonsense://x", "none"):
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


def test_a_transfer_tells_its_amount_its_pauses_and_its_digest() -> None:
    lines = [
        {"status": "The push refers to repository [x]"},
        {"status": "Pushing", "id": "a", "progressDetail": {"current": 12_000_000, "total": 10_000_000}},
        {"status": "Retrying in 1 second", "id": "a"},
        {"status": "Pushed", "id": "a", "progressDetail": {}},
        {"aux": {"Digest": "sha256:1"}},
    ]
    told: list[str] = []
    assert follow_transfer(lines, FailedRequest(what="push x"), on_line=told.append) == "sha256:1"
    assert told == ["a retrying in 1 second: 10 MB of 10 MB"]
    error = {"errorDetail": {"message": "received unexpected HTTP status: 500 Internal Server Error"}}
    with pytest.raises(Unreachable, match="HTTP 500"):
        follow_transfer([*lines, error], FailedRequest(what="push x"), on_line=told.append)


@dataclass
class Api:
    """docker.APIClient, as far as a pull asks it."""

    says: str = ""
    logins: list[Mapping[str, str]] = field(default_factory=list)

    def pull(self, _repository: str, *, auth_config: Mapping[str, str], **_: Any) -> Iterator[dict[str, Any]]:
        self.logins.append(auth_config)
        yield {"error": self.says} if self.says else {"status": "Pull complete", "id": "layer"}

    def inspect_image(self, _ref: str) -> dict[str, Any]:
        return {"Id": "sha256:1", "Config": {}}


def engine_of(home: Path, api: Api, *, auths: Mapping[str, str] | None = None) -> Engine:
    """`auths`: host -> password of the user `me`, as `docker login` leaves it."""
    (home / ".docker").mkdir(exist_ok=True)
    entries = {host: {"auth": base64.b64encode(f"me:{word}".encode()).decode()} for host, word in (auths or {}).items()}
    (home / ".docker" / "config.json").write_text(json.dumps({"auths": entries}))
    env = {"HOME": str(home), "CLOUDSDK_CONFIG": str(home / "none"), "NO_GCE_CHECK": "true", "PATH": str(home)}
    return Engine(host="unix:///none", api=api, env=env)


@pytest.mark.parametrize("ref", [PUBLIC, "docker.io/library/python:3.12-slim", "127.0.0.1:5000/team/image:1"])
def test_a_public_image_needs_no_login(tmp_path: Path, ref: str) -> None:
    api = Api()
    assert engine_of(tmp_path, api).pull(ref).id == "sha256:1"
    assert api.logins == [{}]


@pytest.mark.parametrize(
    ("says", "auths", "id", "words"),
    [
        ("denied: Unauthenticated request", {}, "registry-login-missing", "gcloud auth configure-docker"),
        ("unauthorized: authentication required", {}, "registry-login-missing", "application-default login"),
        ("denied: no", {"us-docker.pkg.dev": "mine"}, "registry-forbidden", "artifactregistry.reader"),
    ],
)
def test_a_refused_pull_says_what_to_do(tmp_path: Path, says: str, auths: dict[str, str], id: str, words: str) -> None:
    with pytest.raises(XsftError) as error:
        engine_of(tmp_path, Api(says), auths=auths).pull(PUBLIC)
    assert (error.value.problem_id, words in error.value.fix) == (id, True)


@pytest.mark.parametrize(
    ("host", "ref"),
    [
        ("registry.example.com", "registry.example.com/team/image:1"),
        ("https://index.docker.io/v1/", "team/image:1"),
        ("us-docker.pkg.dev", PUBLIC),
    ],
)
def test_the_users_own_login_is_used_for_its_host(tmp_path: Path, host: str, ref: str) -> None:
    word = secrets.token_hex()
    api = Api()
    engine_of(tmp_path, api, auths={host: word, "other.example.com": "other"}).pull(ref)
    assert [(login["username"], login["password"]) for login in api.logins] == [("me", word)]


def test_the_builder_is_that_of_the_context(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, Api())
    assert engine.builder == "default"
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"currentContext": "remote"}))
    assert engine.builder == "remote"
    assert replace(engine, env={**engine.env, "DOCKER_CONTEXT": "other"}).builder == "other"
    assert replace(engine, env={**engine.env, "DOCKER_HOST": "ssh://x"}).builder == "default"


@pytest.fixture
def docker(engine: RunningEngine) -> Engine:
    return connect_engine(engine.env)


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
def test_the_engine_finds_images_and_reads_their_files_without_starting_them(
    docker: Engine, engine: RunningEngine, registry: Registry, tmp_path: Path
) -> None:
    assert not docker.rootless
    assert (docker.free_bytes() or 0) > 0
    assert docker.image("xsft-test/none:1") is None
    image = built(step(tmp_path, {"data": "x"}, name="xsft-test/held:1", labels={"a": "b"}), docker)
    assert image.labels["a"] == "b"
    docker.tag("xsft-test/held:1", repository="xsft-test/held", tag="2")
    assert docker.image("xsft-test/held:2") == docker.image(image.id) == image
    assert docker.read_file("xsft-test/held:1", "/data") == b"x"
    assert docker.read_file("xsft-test/held:1", "/none") is None
    assert engine.docker("ps", "--all", "--quiet").stdout == ""
    for action in (
        lambda: docker.tag("xsft-test/none:1", repository="xsft-test/held", tag="3"),
        lambda: docker.pull(registry.reference("none")),
        lambda: docker.pull("127.0.0.1:1/team/none:1"),
    ):
        with pytest.raises(XsftError) as error:
            action()
        assert error.value.problem_id in {"image-absent", "repository-missing", "registry-unreachable"}


@needs_engine
def test_a_pushed_image_pulled_by_digest_is_the_same_image(
    docker: Engine, engine: RunningEngine, registry: Registry, bad_proxy: BadProxy, tmp_path: Path
) -> None:
    """A lost connection and a busy registry are the engine's own to try again."""
    image = built(step(tmp_path, {"data": noise(registry.repository, 3_200_000)}, name="xsft-test/pushed:1"), docker)
    bad_proxy.faults.append(Fault(on=UPLOAD, action="cut", after_bytes=1_000_000))
    repository = f"{bad_proxy.address}/{registry.repository}"
    pushed = docker.push("xsft-test/pushed:1", repository=repository, tag="code-1", on_line=print)
    assert pushed == registry.digest("code-1")
    assert bad_proxy.faults[0].times == 0
    assert docker.push("xsft-test/pushed:1", repository=repository, tag="code-1", on_line=print) == pushed
    engine.docker("rmi", "--force", image.id)
    again = docker.pull(f"{repository}@{pushed}")
    assert (again.id, again.digest_in(repository)) == (image.id, pushed)


@needs_engine
@pytest.mark.parametrize(
    ("fault", "id", "words", "within_s"),
    [
        (Fault(on=MANIFEST, code=500, times=99), "registry-unreachable", "HTTP 500", 10),
        (Fault(on=UPLOAD, code=500, times=99), "registry-unreachable", "HTTP 500", 60),
        (Fault(on="^(POST|PUT|PATCH)", code=403, times=99), "registry-forbidden", "You may not push", 10),
        (Fault(on=MANIFEST, code=429, times=99), "registry-rate-limited", "too many requests", 10),
    ],
    ids=["500", "500-layer", "403", "429"],
)
def test_a_push_that_fails_is_told_in_time_and_leaves_no_tag(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path,
    fault: Fault, id: str, words: str, within_s: float,
) -> None:  # fmt: skip
    built(step(tmp_path, {"data": noise(str(tmp_path), 32_000)}, name="xsft-test/failing:1"), docker)
    bad_proxy.faults.append(replace(fault))
    repository = f"{bad_proxy.address}/{registry.repository}"
    started = time.monotonic()
    with pytest.raises(Unreachable) as failed:
        docker.push("xsft-test/failing:1", repository=repository, tag="code-1", on_line=print)
    assert time.monotonic() - started < within_s
    assert (failed.value.problem_id, words in failed.value.message) == (id, True), failed.value.message
    assert registry.digest("code-1") is None


@needs_engine
def test_a_push_logs_in_with_the_token_and_leaves_it_in_no_file(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path
) -> None:
    token = secrets.token_hex()
    bad_proxy.login = f"{GOOGLE_USER}:{token}"
    built(step(tmp_path, {"data": "x"}, name="xsft-test/login:1"), docker)
    repository = f"{bad_proxy.address}/{registry.repository}"
    docker_folder = Path(docker.env["DOCKER_CONFIG"])
    before = {path: path.read_bytes() for path in docker_folder.rglob("*") if path.is_file()}
    for login, problem in ((None, "registry-login-missing"), ("wrong", "registry-login-refused")):
        with pytest.raises(Unreachable) as failed:
            with_login(docker, login).push("xsft-test/login:1", repository=repository, tag="code-1", on_line=print)
        assert failed.value.problem_id == problem
    pushed = with_login(docker, token).push("xsft-test/login:1", repository=repository, tag="code-1", on_line=print)
    assert pushed == registry.digest("code-1")
    assert {path: path.read_bytes() for path in docker_folder.rglob("*") if path.is_file()} == before


def with_login(docker: Engine, token: str | None) -> Engine:
    login = Login(user=GOOGLE_USER, secret=token) if token else None
    return replace(docker, find_login=lambda _host, env: login)


INTERRUPTED = """
import os, sys
from xsft.image.engine import connect_engine
image, repository = sys.argv[1:]
print("begun", flush=True)
tell = lambda line: print(line, flush=True)
connect_engine(dict(os.environ)).push(image, repository=repository, tag="code-1", on_line=tell)
"""


@needs_engine
def test_an_interrupted_push_can_be_repeated(
    docker: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path
) -> None:
    built(step(tmp_path, {"data": noise(registry.repository, 24_000)}, name="xsft-test/large:1"), docker)
    repository = f"{bad_proxy.address}/{registry.repository}"
    bad_proxy.faults.append(Fault(on=UPLOAD, code=500, times=999))  # it ends by the signal alone
    child = subprocess.Popen(
        (sys.executable, "-c", INTERRUPTED, "xsft-test/large:1", repository),
        env=dict(docker.env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with child:
        assert any("retrying" in line for line in child.stdout or ())
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
    assert child.returncode == -signal.SIGINT
    assert registry.digest("code-1") is None
    bad_proxy.faults.clear()
    assert docker.push("xsft-test/large:1", repository=repository, tag="code-1", on_line=print)
