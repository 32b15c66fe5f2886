"""What a registry says of an image is believed; what it does not say is not."""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from xsft.effects.registry import address, image_exists, image_problems, is_google

DIGEST = "sha256:" + "0" * 64


@contextmanager
def registry(status: int, asked: list[str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(f"{self.path} {'oci' in (self.headers['Accept'] or '')}")
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "there"), [(200, True), (404, False), (401, None), (403, None), (500, None), (301, None), (307, None)]
)
def test_the_registrys_word(status: int, there: bool | None) -> None:
    asked: list[str] = []
    with registry(status, asked) as host:
        assert image_exists(f"{host}/team/image:v1", env={}) is there
    assert asked == ["/v2/team/image/manifests/v1 True"]


def test_only_an_image_that_is_not_there_is_a_problem() -> None:
    with registry(404, []) as host:
        (problem,) = image_problems(f"{host}/image@{DIGEST}", env={})
    assert (problem.id, problem.severity, problem.where) == ("image-not-found", "error", "image.ref")
    assert image_problems(f"{host}/image@{DIGEST}", env={}) == ()  # it does not answer any more


@pytest.mark.parametrize("ref", ["us-docker.pkg.dev/p/r/i:1", "gcr.io/p/i:1"])
def test_googles_registries_are_not_asked_without_a_login(ref: str) -> None:
    assert image_exists(ref, env={"HOME": "/nowhere", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1"}) is None


@pytest.mark.parametrize(
    ("host", "google"),
    [
        ("us-docker.pkg.dev", True),
        ("gcr.io", True),
        ("eu.gcr.io", True),
        ("xgcr.io", False),
        ("my-pkg.dev", False),
        ("pkg.dev", False),
        ("gcr.io.example.com", False),
        ("gcr.io:5000", False),
    ],
)
def test_only_googles_own_registries_are_sent_the_login(host: str, google: bool) -> None:
    assert is_google(host) is google


@pytest.mark.parametrize(
    ("ref", "url"),
    [
        ("us-docker.pkg.dev/p/r/i:1", "https://us-docker.pkg.dev/v2/p/r/i/manifests/1"),
        (f"my.dev/i:1@{DIGEST}", f"https://my.dev/v2/i/manifests/{DIGEST}"),
        ("my.dev:5000/i", "https://my.dev:5000/v2/i/manifests/latest"),
        ("localhost:5000/a/i:2", "http://localhost:5000/v2/a/i/manifests/2"),
        ("python:3.10", None),
        ("library/python:3.10", None),
    ],
)
def test_where_an_image_is_asked_for(ref: str, url: str | None) -> None:
    found = address(ref)
    assert (found[1] if found else None) == url


def test_a_private_registry_is_told_the_users_own_login_once_it_asks(tmp_path: Path) -> None:
    secret = secrets.token_hex()
    right = "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()
    with private_registry(right) as host:
        assert image_exists(f"{host}/team/image:v1", env={"HOME": str(tmp_path)}) is None
        (tmp_path / ".docker").mkdir()
        auths = {host: {"auth": right.removeprefix("Basic ")}}
        (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
        assert image_exists(f"{host}/team/image:v1", env={"HOME": str(tmp_path)}) is True
        assert image_exists(f"{host}/team/none:v1", env={"HOME": str(tmp_path)}) is False


@contextmanager
def private_registry(right: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            known = self.headers.get("Authorization") == right
            self.send_response((404 if "none" in self.path else 200) if known else 401)
            self.send_header("WWW-Authenticate", 'Basic realm="tests"')
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
