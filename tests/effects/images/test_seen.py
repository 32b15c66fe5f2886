"""Is an image there, and which MaxText does its label name: asked of a small registry, and never a reason to fail."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.engine.badproxy import BadProxy
from tests.engine.daemon import Engine
from tests.engine.registryserver import Registry
from tests.engine.steps import step
from xsft.effects.images import docker_client
from xsft.effects.images.docker_build import build, find_client
from xsft.effects.images.docker_push import pusher
from xsft.effects.images.seen import image_exists, image_problems, maxtext_in

NOWHERE = {"HOME": "/nowhere", "PATH": ""}
DIGEST = "sha256:" + "0" * 64


@contextmanager
def registry(labels: dict[str, str] | None, *, status: int = 200) -> Iterator[str]:
    config = json.dumps({"config": {"Labels": labels}}).encode()
    digest = f"sha256:{hashlib.sha256(config).hexdigest()}"
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = json.dumps({"mediaType": kind, "config": {"digest": digest, "size": len(config)}, "layers": []}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = manifest if "/manifests/" in self.path else config
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "there"), [(200, True), (404, False), (401, None), (403, None), (500, None), (301, None), (307, None)]
)
def test_the_registrys_word(status: int, there: bool | None) -> None:
    with registry({}, status=status) as host:
        assert image_exists(f"{host}/team/image:v1", env=NOWHERE) is there


def test_only_an_image_that_does_not_exist_is_a_problem() -> None:
    with registry({}, status=404) as host:
        (problem,) = image_problems(f"{host}/image@{DIGEST}", env=NOWHERE)
    assert (problem.id, problem.severity, problem.where) == ("image-not-found", "error", "image.ref")
    assert image_problems(f"{host}/image@{DIGEST}", env=NOWHERE) == ()  # it does not answer any more


@pytest.mark.parametrize("ref", ["python:3.12", "library/python:3.12", "no name", ""])
def test_a_name_that_the_node_resolves_has_no_login(ref: str) -> None:
    assert image_exists(ref, env=NOWHERE) is None


@pytest.mark.parametrize(
    ("labels", "version"), [({"dev.xsft.maxtext.version": "0.2.4"}, "0.2.4"), ({}, None), (None, None)]
)
def test_the_label_is_read(labels: dict[str, str] | None, version: str | None) -> None:
    with registry(labels) as host:
        assert maxtext_in(f"{host}/team/image:v1", env=NOWHERE) == version


def test_a_registry_that_refuses_or_is_gone_says_nothing() -> None:
    with registry({}, status=403) as host:
        assert maxtext_in(f"{host}/team/image:v1", env=NOWHERE) is None
    assert maxtext_in("image:v1", env=NOWHERE) is None


@pytest.mark.parametrize("ref", ["us-docker.pkg.dev/p/r/i:1", "gcr.io/p/i:1"])
def test_googles_registries_are_not_asked_without_a_login(ref: str) -> None:
    env = {**NOWHERE, "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"}
    assert maxtext_in(ref, env=env) is None
    assert image_exists(ref, env=env) is None


@pytest.mark.engine
def test_a_netrc_neither_blinds_the_look_nor_is_it_sent(
    engine: Engine, bad_proxy: BadProxy, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real registry that wants the user's Docker login; ~/.netrc has another one for every host."""
    made = step(tmp_path / "image", {"data": registry.repository}, labels={"dev.xsft.maxtext.version": "0.2.5"})
    docker, repository = docker_client.connect(engine.env), f"{bad_proxy.address}/{registry.repository}"
    build(made, engine=docker, client=find_client(engine.env), names=("xsft-test/netrc:1",))
    pusher(docker).push("xsft-test/netrc:1", repository=repository, tag="code-1")
    own, netrc = f"me:{secrets.token_hex()}", secrets.token_hex()
    (tmp_path / ".netrc").write_text(f"default login somebody password {netrc}\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / ".docker").mkdir()
    auths = {bad_proxy.address: {"auth": base64.b64encode(own.encode()).decode()}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    monkeypatch.setenv("HOME", str(tmp_path))
    bad_proxy.login, bad_proxy.seen[:] = own, []
    env = {"HOME": str(tmp_path)}
    assert image_exists(f"{repository}:code-1", env=env) is True
    assert maxtext_in(f"{repository}:code-1", env=env) == "0.2.5"
    (problem,) = image_problems(f"{repository}:code-2", env=env)
    assert problem.id == "image-not-found"
    assert {seen.login for seen in bad_proxy.seen} == {"", own}
