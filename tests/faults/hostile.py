"""Servers that send anything but what a Kubernetes API server does, each a table row: the bytes that it sends."""

from __future__ import annotations

import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from typing import Any

Parts = Iterator[bytes]
PAUSE = b""
"""A part that stands for a pause of a tenth of a second."""
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
UNTIL_CLOSED = OK + b"Connection: close\r\n\r\n"
MEGABYTE = b" " * 2**20
RESET, SILENT = "reset", "silent"
"""How a server ends its answer, other than by closing the connection."""


def body(content: Any, *headers: bytes) -> list[bytes]:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return [OK, *(header + b"\r\n" for header in headers), b"Content-Length: %d\r\n\r\n" % len(text), text]


def items(*entries: Any) -> list[bytes]:
    return body({"items": entries})


def named(**parts: Any) -> list[bytes]:
    """A list with one object, and this in the place of its parts; the same as an object."""
    odd_object = {"metadata": {"name": "odd", "uid": "u", "labels": {"xsft.dev/run": "odd"}}, **parts}
    return body({**odd_object, "items": [odd_object]})


def status(line: str, content: Any = None, *headers: str) -> list[bytes]:
    text = b"" if content is None else json.dumps(content).encode()
    lines = (f"HTTP/1.1 {line}", *headers, f"Content-Length: {len(text)}", "", "")
    return ["\r\n".join(lines).encode(), text]


def dribbled(content: bytes) -> Parts:
    return chain.from_iterable((bytes((byte,)), PAUSE) for byte in content)


def bomb() -> list[bytes]:
    """A megabyte that is a gigabyte when it is unpacked."""
    part = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = b"".join(part.compress(MEGABYTE) for _ in range(1024)) + part.flush()
    return body(packed, b"Content-Encoding: gzip")


DEEP = 200_000
SERVERS: dict[str, Callable[[], Any]] = {
    # the connection
    "closes": list,
    "resets": lambda: [RESET],
    "silent": lambda: [SILENT],
    "half-a-status-line": lambda: [b"HTTP/1.1 2", SILENT],
    "garbage": lambda: [bytes(range(256)) * 8],
    "HTTP-0.9": lambda: [b'{"items": []}'],
    "HTTP-2": lambda: [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    "TLS-alert": lambda: [b"\x15\x03\x01\x00\x02\x02\x28"],
    # the head
    "100-Continue-for-ever": lambda: chain.from_iterable(repeat((b"HTTP/1.1 100 Continue\r\n\r\n", PAUSE))),
    "half-a-header": lambda: [OK + b"Cont"],
    "headers-for-ever": lambda: chain([OK], chain.from_iterable(repeat((b"X-More: 1\r\n", PAUSE)))),
    "a-header-without-an-end": lambda: chain([OK, b"X-More: "], repeat(MEGABYTE, 4)),
    "a-byte-of-the-head-now-and-then": lambda: dribbled(UNTIL_CLOSED + MEGABYTE),
    "negative-length": lambda: [OK, b"Content-Length: -5\r\n\r\n{}"],
    "no-number-as-length": lambda: [OK, b"Content-Length: many\r\n\r\n{}"],
    "more-length-than-content": lambda: [OK, b"Content-Length: 99\r\n\r\n{}"],
    "broken-chunks": lambda: [OK, b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"],
    "a-chunk-without-an-end": lambda: [OK, b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n{", SILENT],
    "broken-gzip": lambda: body(b"\x1f\x8b" + b"x" * 99, b"Content-Encoding: gzip"),
    "unknown-encoding": lambda: body(b"{}", b"Content-Encoding: br"),
    "three-encodings": lambda: body(b"{}", b"Content-Encoding: gzip, gzip, gzip"),
    "a-wrong-date": lambda: body({"items": []}, b"Date: yesterday"),
    # the body
    "a-byte-of-the-body-now-and-then": lambda: chain([UNTIL_CLOSED], dribbled(b'{"items": [' + MEGABYTE)),
    "deep-arrays": lambda: body(b'{"items": ' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "deep-objects": lambda: body(b'{"items": [' + b'{"spec":' * DEEP + b"1" + b"}" * DEEP + b"]}"),
    "half-of-the-JSON": lambda: body(b'{"items": [{"metadata": {"na'),
    "text": lambda: body(b"hello"),
    "a-page": lambda: body(b"<!DOCTYPE html><html><body>Sign in</body></html>"),
    "nothing": lambda: body(b""),
    "null": lambda: body(None),
    "an-array": lambda: body([{}]),
    "a-number": lambda: body(7),
    "not-UTF-8": lambda: body(b'{"items": [{"metadata": {"name": "\xff\xfe"}}]}'),
    "NaN": lambda: body(b'{"items": NaN}'),
    "a-huge-number": lambda: named(spec={"replicas": 10**400}),
    # the shape
    "items-null": lambda: body({"items": None}),
    "items-an-object": lambda: body({"items": {"a": 1}}),
    "items-of-null": lambda: items(None, None),
    "empty-items": lambda: items({}, {}),
    "items-of-numbers": lambda: items(1, 2),
    "metadata-null": lambda: named(metadata=None),
    "a-number-as-name": lambda: named(metadata={"name": 5}),
    "a-list-as-labels": lambda: named(metadata={"name": "odd", "labels": ["a"]}),
    "numbers-as-labels": lambda: named(metadata={"name": "odd", "labels": {"xsft.dev/run": 5}}),
    "a-list-as-spec": lambda: named(spec=[1]),
    "null-everywhere": lambda: named(spec=None, status=None, data=None),
    "odd-parts": lambda: named(
        spec={key: [None, 7, "a", {}, []] for key in ("replicatedJobs", "resourceGroups", "template", "replicas")},
        status={key: [None, 7, {}, {"type": 5}] for key in ("conditions", "containerStatuses", "replicatedJobsStatus")},
    ),
    "the-other-parts": lambda: named(
        spec={"clusterQueue": 5, "resourceGroups": {"a": 1}, "replicatedJobs": {"a": 1}, "nodeName": []},
        status={"conditions": {"a": 1}, "phase": {}, "allocatable": [], "capacity": 7},
    ),
    "a-screen-in-a-name": lambda: named(metadata={"name": "odd\x1b]0;x\x07\n\u202e", "uid": "u"}),
    # the status
    "redirect": lambda: status("302 Found", None, "Location: http://127.0.0.1:9/"),
    "204": lambda: status("204 No Content"),
    "299-with-a-string": lambda: status("299 Fine", "fine"),
    "status-999": lambda: status("999 Odd", {"message": 7, "details": "no"}),
    "401": lambda: status("401 Unauthorized", {"message": None, "details": []}),
    "403-with-odd-causes": lambda: status("403 Forbidden", {"message": {}, "details": {"causes": {"a": 1}}}),
    "404-with-an-odd-kind": lambda: status("404 Not Found", {"message": [], "details": {"kind": 7, "name": []}}),
    "422-of-nothing": lambda: status("422 Invalid", {"details": {"causes": [None, 7, {}]}}),
    "429-for-ever": lambda: status("429 Later", {}, "Retry-After: 999999999"),
    "500-with-an-array": lambda: status("500 Broken", [[]]),
}
SLOW = {
    "silent",
    "half-a-status-line",
    "100-Continue-for-ever",
    "headers-for-ever",
    "a-byte-of-the-head-now-and-then",
    "a-chunk-without-an-end",
    "a-byte-of-the-body-now-and-then",
}
"""Those that never end their answer."""
LARGE: dict[str, Callable[[], Any]] = {
    "endless": lambda: chain([UNTIL_CLOSED, b'{"items": ['], repeat(MEGABYTE)),
    "3-GB": lambda: chain([OK, b"Content-Length: 3000000000\r\n\r\n"], repeat(MEGABYTE)),
    "gzip-bomb": bomb,
    "a-line-without-an-end": lambda: chain([status("500 Broken")[0][:-5], b"\r\n\r\n"], repeat(b"x" * 2**20)),
    "many-empty-objects": lambda: body(b'{"items": [' + b"{}," * 20_000_000 + b"{}]}"),
    "small-objects": lambda: items(*[{"metadata": {"name": "a"}}] * 1_000_000),
    "many-lists": lambda: body(b'{"items": [' + b"[[[[]]]]," * 7_000_000 + b"{}]}"),
}
"""Answers too large to read."""


@contextmanager
def hostile(names: dict[str, Callable[[], Any]]) -> Iterator[dict[str, str]]:
    """Yield the address of each server, on a port of loopback of its own; any request gets the same answer."""
    ended = threading.Event()
    with ExitStack() as stack:
        stack.callback(ended.set)
        addresses = {}
        for name, answer in names.items():
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
            stack.callback(listener.shutdown, socket.SHUT_RDWR)  # ends `accept`, as closing it does not
            addresses[name] = f"http://127.0.0.1:{listener.getsockname()[1]}"
            first_answer = answer()  # once, if it is not endless
            again: Callable[[], Any] = partial(list, first_answer) if isinstance(first_answer, list) else answer
            threading.Thread(target=_accept, args=(listener, again, ended), daemon=True).start()
        yield addresses


def _accept(listener: socket.socket, answer: Callable[[], Any], ended: threading.Event) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection, answer, ended), daemon=True).start()


def _answer(connection: socket.socket, answer: Callable[[], Any], ended: threading.Event) -> None:
    with suppress(OSError), connection:
        connection.recv(65536)
        for part in answer():
            if part == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif part == SILENT:
                ended.wait(60)
            elif part == PAUSE:
                ended.wait(0.1)
            else:
                connection.sendall(part)
            if ended.is_set():
                return
