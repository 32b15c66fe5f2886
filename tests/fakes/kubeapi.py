"""A stand-in of the Kubernetes API on loopback: enough to create, dry-run, read and list, and to fail on demand.

It stores objects and answers with the real server's words (study: infra §2.5, §4.1, §4.2). It runs no controller: what
JobSet and Kueue would do later, a test writes into `objects` itself.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import yaml

from tests.fakes.kubeobjects import Answer, Objects, status

CONTEXT = "stand-in"

Action = Literal["answer", "cut-before", "cut-after", "hang-before", "hang-after"]


@dataclass
class Fault:
    """What happens to requests that match, `times` times. `on` is a pattern for "METHOD /path?query"."""

    on: str
    action: Action = "answer"
    code: int = 500
    """For `answer`."""
    message: str = "injected"
    retry_after: str | None = None
    delay_s: float = 0.0
    """Before anything else; with `code=0` the request is then answered as usual."""
    times: int = 1


@dataclass
class Seen:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class KubeApi:
    """One cluster."""

    objects: Objects = field(default_factory=Objects)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    user: str = "nightly"
    denied: set[tuple[str, str]] = field(default_factory=set)
    """(verb, plural) that RBAC refuses."""
    faults: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, on: str, **how: Any) -> None:
        self.faults.append(Fault(on=on, **how))

    def asked(self, on: str) -> list[Seen]:
        """Requests whose "METHOD /path?query" matches."""
        return [one for one in self.seen if re.search(on, _line(one))]

    def take_fault(self, one: Seen) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and re.search(fault.on, _line(one)):
                    fault.times -= 1
                    return fault
        return None

    def answer(self, one: Seen) -> Answer:
        if one.headers.get("authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        with self.lock:
            self.objects.user, self.objects.denied = self.user, self.denied
            return self.objects.answer(
                one.method, one.path, query=one.query, body=one.body, accept=one.headers.get("accept", "")
            )

    def kubeconfig(self, file: Path, *, ca: Path | None = None, token: str | None = None) -> Path:
        """Write one that reaches this server as its user."""
        cluster = {"server": self.url, **({"certificate-authority": str(ca)} if ca else {})}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "somewhere-else",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token or self.token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": "c", "user": "u"}}],
        }
        file.write_text(yaml.safe_dump(content))
        file.chmod(0o600)
        return file


def _line(one: Seen) -> str:
    return f"{one.method} {one.path}?" + "&".join(f"{k}={v}" for k, v in one.query.items())


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: KubeApi) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.api = api

    def handle_error(self, *_: object) -> None:
        """Cut connections are meant."""


@contextmanager
def serving(api: KubeApi, *, certificate: tuple[Path, Path] | None = None) -> Iterator[KubeApi]:
    """Serve it on a free port of loopback; with `certificate` (file, key) over TLS."""
    server = Server(api)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, certificate))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    api.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


class Handler(BaseHTTPRequestHandler):
    server: Server

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer takes 40 ms

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        one = self._read()
        self.server.api.seen.append(one)
        fault = self.server.api.take_fault(one)
        if fault is None:
            self._send(self.server.api.answer(one))
            return
        if fault.delay_s:
            self.server.api.stopping.wait(fault.delay_s)
        self._fail(fault, one)

    def _fail(self, fault: Fault, one: Seen) -> None:
        match fault.action:
            case "answer" if fault.code == 0:
                self._send(self.server.api.answer(one))
            case "answer":
                self._send(status(fault.code, "Injected", fault.message, retry_after=fault.retry_after))
            case "cut-before" | "hang-before":
                self._cut(fault.action)
            case "cut-after" | "hang-after":
                self.server.api.answer(one)
                self._cut(fault.action)

    def _cut(self, action: str) -> None:
        if action.startswith("hang"):
            self.server.api.stopping.wait(30)
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> Seen:
        split = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {key.lower(): value for key, value in self.headers.items()}
        return Seen(
            method=self.command,
            path=unquote(split.path),
            query=dict(parse_qsl(split.query)),
            headers=headers,
            body=json.loads(raw) if raw else None,
        )

    def _send(self, answer: Answer) -> None:
        content = answer.content()
        self.send_response(answer.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)
