"""Which MaxText an image holds, by its label: asked of a small registry, and never a reason to fail."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from xsft.effects.image_seen import maxtext_in

NOWHERE = {"HOME": "/nowhere", "PATH": ""}


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
    ("labels", "version"), [({"dev.xsft.maxtext.version": "0.2.4"}, "0.2.4"), ({}, None), (None, None)]
)
def test_the_label_is_read(labels: dict[str, str] | None, version: str | None) -> None:
    with registry(labels) as host:
        assert maxtext_in(f"{host}/team/image:v1", env=NOWHERE) == version


def test_a_registry_that_refuses_or_is_gone_says_nothing() -> None:
    with registry({}, status=403) as host:
        assert maxtext_in(f"{host}/team/image:v1", env=NOWHERE) is None
    assert maxtext_in("image:v1", env=NOWHERE) is None


def test_googles_registry_is_not_asked_without_a_login() -> None:
    assert maxtext_in("us-docker.pkg.dev/p/r/i:v1", env={**NOWHERE, "NO_GCE_CHECK": "true"}) is None
