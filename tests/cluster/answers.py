"""An API server's answers in turn, without a server."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

from urllib3 import HTTPResponse, exceptions
from urllib3.connection import HTTPConnection

from xsft.cluster.access import Access
from xsft.cluster.api import Api, Patience
from xsft.cluster.http import Credentials, Http

LOST = exceptions.ProtocolError("Connection aborted.")
UNSENT = exceptions.NewConnectionError(HTTPConnection("lab.example"), "refused")
FORBIDDEN = (403, {"message": 'User "u" cannot act resource "jobsets" in API group "x"'})
TRIES = 3
SERVER = "https://lab.example"


class Answers:
    """Connections that give these answers in turn."""

    def __init__(self, *answers: Any) -> None:
        self.left, self.sent = list(answers), list[tuple[str, Any]]()
        self.paths: list[str] = []
        self.accepted: list[str] = []

    def request(
        self, method: str, url: str, *, headers: dict[str, str], body: bytes | None, **_options: Any
    ) -> HTTPResponse:
        self.paths.append(url.removeprefix(SERVER))
        self.accepted.append(headers["Accept"])
        self.sent.append((method, json.loads(body) if body else None))
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        content = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
        return HTTPResponse(BytesIO(content), status=answer[0], preload_content=False)

    @property
    def api(self) -> Api:
        access = Access(context="lab", kubeconfig=(Path("config"),), gke=False)
        pool: Any = self
        http = Http(SERVER, access=access, login=Credentials, pool=lambda *_: pool, timeouts_s=(1.0, 1.0))
        return Api(http, access=access, patience=Patience(tries=TRIES, sleep=lambda _: None))
