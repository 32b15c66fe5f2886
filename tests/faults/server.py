"""An HTTP server that misbehaves when told to: in front of the stand-in's objects, or of a real API server."""

from __future__ import annotations

import email.utils
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.faults.answer import Answer, gone, status
from tests.faults.fault import Fault, Faults, Seen

HANG_S = 30.0


class Unanswered(Exception):
    """Raised if the server behind did not answer: this one does not answer either."""


@dataclass
class Front:
    """`behind` does what is asked, unless a fault comes before it."""

    behind: Callable[[Seen], Answer]
    """Raises Unanswered."""
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    skew_s: float = 0.0
    """How far the Date of every answer is off."""
    delay_s: float = 0.0
    """How much later every answer comes."""
    stopping: threading.Event = field(default_factory=threading.Event)
    _faults: Faults = field(default_factory=Faults)

    @property
    def faults(self) -> list[Fault]:
        return self._faults.left

    def fail(self, on: str, **how: Any) -> None:
        self.faults.append(Fault(on=on, **how))

    def asked(self, on: str) -> list[Seen]:
        """Requests whose "METHOD /path?query" matches."""
        return [request for request in self.seen if re.search(on, request.line)]

    def take(self, request: Seen) -> Fault | None:
        return self._faults.take(request)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, front: Front) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.front = front

    def handle_error(self, *_: object) -> None:
        """Cut connections are meant."""


@contextmanager
def served(front: Front, *, certificate: tuple[Path, Path] | None = None) -> Iterator[Front]:
    """On a free port of loopback; with `certificate` (file, key) over TLS."""
    server = Server(front)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, certificate))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    front.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.stopping.set()
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
        request = self._read()
        self.server.front.seen.append(request)
        self.server.front.stopping.wait(self.server.front.delay_s)
        fault = self.server.front.take(request)
        with suppress(Unanswered, BrokenPipeError, ConnectionResetError):
            if fault is None:
                self._send(self.server.front.behind(request))
            else:
                self._fail(fault, request)
            return
        self._cut()

    def _fail(self, fault: Fault, request: Seen) -> None:
        self.server.front.stopping.wait(fault.delay_s)
        if fault.do:
            fault.do()
        if fault.action == "answer" and fault.code:
            self._send(status(fault.code, "Injected", fault.message, retry_after=fault.retry_after))
        elif fault.action.endswith("-before"):
            self._silence(fault)
        else:
            answer = self.server.front.behind(request)
            if fault.then:
                fault.then()
            self._spoil(fault, answer)

    def _spoil(self, fault: Fault, answer: Answer) -> None:
        """The server did what was asked; what comes of its answer."""
        match fault.action:
            case "answer":
                self._send(answer)
            case "short":
                content = answer.content()
                self._start(answer, length=len(content))
                self.wfile.write(content[: len(content) // 2])
                self._cut()
            case "broken-json" | "broken-gzip":
                self._send(answer.halved(packed=fault.action == "broken-gzip"))
            case "stream-cut" | "stream-end" | "stream-gone":
                self._stream(answer, fault)
            case _:
                self._silence(fault)

    def _silence(self, fault: Fault) -> None:
        if fault.action.startswith("hang"):
            self.server.front.stopping.wait(HANG_S)
        if fault.action.startswith("reset"):  # closed with data unsent and no lingering: RST
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        self._cut()

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> Seen:
        split = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Seen(
            method=self.command,
            path=unquote(split.path),
            query=dict(parse_qsl(split.query)),
            headers={key.lower(): value for key, value in self.headers.items()},
            body=_parsed(raw),
            target=self.path,
            raw=raw,
        )

    def _send(self, answer: Answer) -> None:
        if answer.stream is not None:
            self._stream(answer, None)
            return
        content = answer.content()
        self._start(answer, length=len(content))
        self.wfile.write(content)

    def _start(self, answer: Answer, *, length: int | None) -> None:
        self.send_response_only(answer.code)
        self.send_header("Date", email.utils.formatdate(time.time() + self.server.front.skew_s, usegmt=True))
        if "Content-Type" not in answer.headers:
            self.send_header("Content-Type", "application/json")
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))))
        self.end_headers()

    def _stream(self, answer: Answer, fault: Fault | None) -> None:
        self._start(answer, length=None)
        for part in _limited(answer.stream or iter((answer.content(),)), fault):
            self._chunk(part)
        if fault and fault.action == "stream-cut":
            self._cut()
            return
        if fault and fault.action == "stream-gone":
            self._chunk(gone())
        self._chunk(b"")

    def _chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))


def _limited(stream: Iterator[bytes], fault: Fault | None) -> Iterator[bytes]:
    """Up to the fault's line or byte; the whole stream without one."""
    lines = fault.after_lines if fault else None
    size = fault.after_bytes if fault else None
    if lines == 0 or size == 0:
        return
    for part in stream:
        passed = part if size is None else part[:size]
        if lines is not None:
            passed = b"".join(passed.splitlines(keepends=True)[:lines])
            lines -= passed.count(b"\n")
        size = None if size is None else size - len(passed)
        if passed:
            yield passed
        if size == 0 or (lines is not None and lines <= 0):
            return


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
