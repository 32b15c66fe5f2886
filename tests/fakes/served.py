"""A small HTTP server with answers by path: of a registry, or of Google's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.loopback import serving_http


@dataclass
class Answer:
    """An answer; a body that is not bytes is sent as JSON."""

    status: int = 200
    body: Any = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Served:
    """Answers by path; what is not named is not there."""

    address: str = ""
    answers: dict[str, Callable[[str], Answer]] = field(default_factory=dict)
    """Path without query -> answer to a request with that Authorization header."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path, and the Authorization header."""
    bodies: list[bytes] = field(default_factory=list)
    """Of requests that have one."""

    def answer(self, path: str, *answers: Answer) -> None:
        """Give these answers one after the other; the last one is repeated."""
        later_answers = list(answers)
        self.answers[path] = lambda _: later_answers.pop(0) if len(later_answers) > 1 else later_answers[0]


@contextmanager
def serving() -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            login = self.headers.get("Authorization", "")
            served.asked.append((f"{self.command} {self.path}", login))
            if size := int(self.headers.get("Content-Length") or 0):
                served.bodies.append(self.rfile.read(size))
            answers = served.answers.get(self.path.partition("?")[0])
            answer = answers(login) if answers else Answer(404)
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815

    with serving_http(Handler) as url:
        served.address = url.removeprefix("http://")
        yield served
