"""Every way in which the road to a cluster breaks, as users meet them: a kubeconfig, and what stands behind its server.

Loopback only: what listens there is silent, refuses, shows a wrong certificate, or stands before the test's cluster and
spoils what it says.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.control_plane.ports import free_port
from tests.fakes.clusters import ClusterApi
from tests.faults.answer import Answer
from tests.faults.server import Front, served

NOWHERE = "xsft-tests-nowhere.invalid"
PAGE = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>"
HALF = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"items": ['
ALWAYS = 999


@dataclass(frozen=True, kw_only=True)
class Scene:
    api: ClusterApi
    folder: Path

    def points_to(self, server: str, *, ca: Path | None = None) -> None:
        self.entry("cluster", {"server": server, **({"certificate-authority": str(ca)} if ca else {})})

    def entry(self, kind: str, values: dict[str, Any]) -> None:
        """The kubeconfig's cluster or user."""
        config = yaml.safe_load(self.api.kubeconfig.read_text())
        config[f"{kind}s"][0][kind] = values
        self.api.kubeconfig.write_text(yaml.safe_dump(config))


Breaks = Callable[[Scene], AbstractContextManager[dict[str, str]]]
"""Yields what is in the environment besides."""


@contextmanager
def failing(scene: Scene, **how: Any) -> Iterator[dict[str, str]]:
    """The cluster itself, through the server that fails on demand."""
    scene.api.server.fail(".", times=ALWAYS, **how)
    yield {}
    scene.api.server.faults.clear()


@contextmanager
def answering(scene: Scene, *, code: int, text: str) -> Iterator[dict[str, str]]:
    """Answer as a portal, a proxy or a load balancer does, not as a Kubernetes API server."""
    with served(Front(behind=lambda _: Answer(code, text, {"Content-Type": "text/html"}))) as front:
        scene.points_to(front.url)
        yield {}


@contextmanager
def named(scene: Scene, server: str, **env: str) -> Iterator[dict[str, str]]:
    scene.points_to(server)
    yield env


@contextmanager
def refused(scene: Scene) -> Iterator[dict[str, str]]:
    scene.points_to(f"http://127.0.0.1:{free_port()}")
    yield {}


@contextmanager
def full(scene: Scene) -> Iterator[dict[str, str]]:
    """Accept no connection, with a full queue: the kernel drops further packets, as a firewall does."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(server.getsockname())
        scene.points_to(f"https://127.0.0.1:{server.getsockname()[1]}")
        yield {}


@contextmanager
def says(scene: Scene, *, first: bytes = b"", scheme: str = "http", closes: bool = False) -> Iterator[dict[str, str]]:
    """Takes every connection, says that much, and nothing more; `closes`: and hangs up."""
    with listening(first=first, closes=closes) as port:
        scene.points_to(f"{scheme}://127.0.0.1:{port}")
        yield {}


@contextmanager
def proxied(scene: Scene, *, first: bytes | None) -> Iterator[dict[str, str]]:
    """A proxy that refuses every host; None: that is not there."""
    scene.points_to(f"https://{NOWHERE}")
    if first is None:
        yield {"HTTPS_PROXY": f"http://127.0.0.1:{free_port()}"}
        return
    with listening(first=first, closes=True) as port:
        yield {"HTTPS_PROXY": f"http://127.0.0.1:{port}"}


@contextmanager
def certified(scene: Scene, *, host: str = "", days: int = 30, trusted: bool = True) -> Iterator[dict[str, str]]:
    """The server shows this certificate; `trusted`: the kubeconfig names it."""
    certificate, key = write_certificate(scene.folder, host=host, days=days)
    with served(Front(behind=lambda _: Answer(200, {})), certificate=(certificate, key)) as front:
        scene.points_to(front.url, ca=certificate if trusted else None)
        yield {}


@contextmanager
def plugged(scene: Scene, body: str | None) -> Iterator[dict[str, str]]:
    """The context logs in with a program that does this; None: that is not installed."""
    program = scene.folder / "some-login"
    if body is not None:
        program.write_text(f"#!{sys.executable}\n{body}")
        program.chmod(0o700)
    section = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program) if body else program.name}
    scene.entry("user", {"exec": section})
    yield {}


@contextmanager
def listening(*, first: bytes, closes: bool) -> Iterator[int]:
    sockets: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection = server.accept()[0]
                sockets.append(connection)
                if first or closes:  # unread bytes would turn the close into a reset
                    connection.recv(65536)
                connection.sendall(first)
                if closes:
                    connection.close()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for connection in sockets:
            connection.close()
    thread.join(5)


def write_certificate(folder: Path, *, host: str, days: int) -> tuple[Path, Path]:
    """Self-signed, of loopback unless `host` is named, valid for so many days (negative: no more); and its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "xsft-tests")])
    subject = x509.DNSName(host) if host else x509.IPAddress(IPv4Address("127.0.0.1"))
    now = datetime.now(UTC)
    certificate_builder = x509.CertificateBuilder(
        subject_name=name,
        issuer_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=60),
        not_valid_after=now + timedelta(days=days),
    )
    certificate_builder = certificate_builder.add_extension(x509.SubjectAlternativeName([subject]), critical=False)
    certificate_builder = certificate_builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    certificate_builder = certificate_builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    files = folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(certificate_builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


REFUSES = b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n"

TRANSPORTS: dict[str, Breaks] = {
    "unknown host": partial(named, server=f"https://{NOWHERE}"),
    "connection refused": refused,
    "packets dropped": full,
    "no response": says,
    "no TLS response": partial(says, scheme="https"),
    "half a response, then none": partial(says, first=HALF),
    "half a response, then closed": partial(says, first=HALF, closes=True),
    "connection closed": partial(says, closes=True),
    "connection closed during TLS": partial(says, scheme="https", closes=True),
    "plain HTTP instead of TLS": partial(says, scheme="https", first=REFUSES % b"400 Bad Request", closes=True),
    "self-signed certificate": partial(certified, trusted=False),
    "expired certificate": partial(certified, days=-1),
    "certificate of another host": partial(certified, host="elsewhere.invalid"),
    "proxy down": partial(proxied, first=None),
    "proxy login required": partial(proxied, first=REFUSES % b"407 Proxy Authentication Required"),
    "host refused by proxy": partial(proxied, first=REFUSES % b"403 Forbidden"),
    "reset": partial(failing, action="reset-before"),
    "reset after the request was served": partial(failing, action="reset-after"),
    "truncated body": partial(failing, action="short"),
    "truncated JSON": partial(failing, action="broken-json"),
    "truncated gzip": partial(failing, action="broken-gzip"),
    "login page": partial(answering, code=200, text=PAGE),
    "page with 403": partial(answering, code=403, text=PAGE),
    "page with 502": partial(answering, code=502, text=PAGE),
    "page with 404": partial(answering, code=404, text=PAGE),
    "redirect": partial(answering, code=302, text=PAGE),
    "401": partial(failing, code=401, message="Unauthorized"),
    "429": partial(failing, code=429, message="Too many requests, please try again later.", retry_after="1"),
    "429 for an hour": partial(failing, code=429, message="Too many requests.", retry_after="3600"),
    "500": partial(failing, code=500, message="etcdserver: request timed out"),
    "503": partial(failing, code=503, message="the server is currently unable to handle the request"),
    "login program missing": partial(plugged, body=None),
    "login program fails": partial(
        plugged, body="import sys\nsys.exit('ERROR: (gcloud.config) Reauthentication failed.')"
    ),
    "login program hangs": partial(plugged, body="import time\ntime.sleep(60)"),
}
