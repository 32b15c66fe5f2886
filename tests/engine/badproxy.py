"""A registry as it is on a bad day: an HTTP proxy on loopback before the real one, that misbehaves on demand.

Docker reaches it as `127.0.0.1:PORT`. Everything that no fault matches is passed through unchanged, so that a push can
recover by itself, and what it sent again can be counted.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Literal

from tests.fakes.loopback import serving_http

CHUNK = 1 << 16
REALM = 'Basic realm="tests"'
CODES = {401: "UNAUTHORIZED", 403: "DENIED", 404: "NAME_UNKNOWN", 429: "TOOMANYREQUESTS"}
"""As registries name them: the engine passes on these names, not the statuses.
source: distribution@2.8 registry/api/errcode/register.go, registry/api/v2/errors.go."""
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"})

Action = Literal["answer", "cut"]


@dataclass
class Fault:
    """A fault of requests that match, `times` times. `on` is a pattern for "METHOD /path?query"."""

    on: str
    action: Action = "answer"
    """`cut`: take `after_bytes` of the body, pass them on, then reset both connections."""
    code: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    """E.g. `Retry-After`."""
    message: str = "injected"
    after_bytes: int = 0
    times: int = 1


@dataclass
class Seen:
    """One request."""

    line: str
    """`METHOD /path?query`."""
    login: str
    """`USER:PASSWORD` as sent, or empty."""
    body_bytes: int = 0
    """Bytes of the body that were taken."""
    code: int = 0
    """What was answered; 0 where the connection was cut."""


@dataclass
class BadProxy:
    """A proxy that runs. Set `faults` and `login` at any time."""

    address: str
    upstream: str
    """`127.0.0.1:PORT` of the real registry."""
    faults: list[Fault] = field(default_factory=list)
    login: str | None = None
    """`USER:PASSWORD` without which everything is refused with 401."""
    seen: list[Seen] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_for(self, line: str) -> Fault | None:
        with self._lock:
            next_fault = next((fault for fault in self.faults if fault.times > 0 and re.search(fault.on, line)), None)
            if next_fault:
                next_fault.times -= 1
            return next_fault

    def sent(self, pattern: str = "") -> int:
        """Bytes of all request bodies whose "METHOD /path?query" matches."""
        return sum(request.body_bytes for request in self.seen if re.search(pattern, request.line))

    def count(self, pattern: str) -> int:
        return sum(1 for request in self.seen if re.search(pattern, request.line))


@contextmanager
def misbehaving(upstream: str) -> Iterator[BadProxy]:
    """A proxy before the registry at `upstream` (`127.0.0.1:PORT`); it does nothing wrong until it is told to."""
    proxy = BadProxy(address="", upstream=upstream)
    with serving_http(_Handler, proxy=proxy) as url:
        proxy.address = url.removeprefix("http://")
        yield proxy


class _Cut(Exception):
    """The connection is to be reset."""


class _Handler(BaseHTTPRequestHandler):
    proxy: BadProxy
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        proxy = self.proxy
        seen = Seen(line=f"{self.command} {self.path}", login=self._login())
        proxy.seen.append(seen)
        try:
            self._answer(proxy, seen)
        except (_Cut, OSError, http.client.HTTPException):
            self._reset()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 the names that http.server calls

    def _answer(self, proxy: BadProxy, seen: Seen) -> None:
        if proxy.login is not None and seen.login != proxy.login:
            self._say(seen, 401, {"WWW-Authenticate": REALM}, "authentication required")
            return
        fault = proxy.fault_for(seen.line)
        if fault and fault.action == "answer":
            self._say(seen, fault.code, fault.headers, fault.message)
            return
        self._pass_through(proxy, seen, take=fault.after_bytes if fault else None)

    def _pass_through(self, proxy: BadProxy, seen: Seen, *, take: int | None) -> None:
        connection = http.client.HTTPConnection(proxy.upstream, timeout=60)
        try:
            self._send_on(connection, seen, take)
            answer = connection.getresponse()
            self._copy_back(answer, seen)
        finally:
            connection.close()

    def _send_on(self, connection: http.client.HTTPConnection, seen: Seen, take: int | None) -> None:
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP | {"authorization"}:
                connection.putheader(name, value)
        chunked = self._is_chunked()
        if chunked:
            connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for piece in self._body():
            part = piece if take is None else piece[: take - seen.body_bytes]
            seen.body_bytes += len(part)
            connection.send(b"%x\r\n%s\r\n" % (len(part), part) if chunked and part else part)
            if take is not None and seen.body_bytes >= take:
                raise _Cut
        if take is not None:
            raise _Cut  # the body was shorter than that
        if chunked:
            connection.send(b"0\r\n\r\n")

    def _body(self) -> Iterator[bytes]:
        if not self._is_chunked():
            yield from self._exactly(int(self.headers.get("Content-Length") or 0))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield from self._exactly(size)
            self.rfile.readline()
        self.rfile.readline()

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self.rfile.read(min(size, CHUNK))
            if not piece:
                raise _Cut
            size -= len(piece)
            yield piece

    def _copy_back(self, answer: http.client.HTTPResponse, seen: Seen) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if bodyless := self.command == "HEAD" or answer.status in (204, 304):
            chunked = False
        elif chunked := answer.getheader("Content-Length") is None:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not bodyless and (piece := answer.read(CHUNK)):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        seen.code = answer.status

    def _say(self, seen: Seen, code: int, headers: Mapping[str, str], message: str) -> None:
        """Answer in the registry's form of an error; the body that was announced is not read."""
        error = {"code": CODES.get(code, "UNKNOWN"), "message": message}
        body = json.dumps({"errors": [error]}).encode()
        self.close_connection = True
        self.send_response_only(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        seen.code = code

    def _reset(self) -> None:
        """Close with a TCP reset, as a broken line looks: what was not read is not waited for."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)

    def _is_chunked(self) -> bool:
        return "chunked" in (self.headers.get("Transfer-Encoding") or "").lower()

    def _login(self) -> str:
        kind, _, value = (self.headers.get("Authorization") or "").partition(" ")
        return base64.b64decode(value).decode() if kind.lower() == "basic" else ""
