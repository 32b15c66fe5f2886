"""An answer on its way to a client, and the Status that Kubernetes says no with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
ENCODING = "Content-Encoding"


@dataclass
class Answer:
    code: int
    body: Any
    """JSON, text, or the bytes themselves."""
    headers: dict[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = None
    """Instead of the body: what comes, as it comes."""

    def content(self) -> bytes:
        """Return the content as it is sent."""
        match self.body:
            case bytes():
                return self.body
            case str():
                return self.body.encode()
            case _:
                return json.dumps(self.body).encode()

    def plain(self) -> bytes:
        """The content, unpacked."""
        return gzip.decompress(self.content()) if self.headers.get(ENCODING) == "gzip" else self.content()

    def halved(self, *, packed: bool) -> Answer:
        """The first half of it, as if that were all; of its gzip stream if `packed`."""
        complete = gzip.compress(self.plain()) if packed else self.plain()
        others = {key: value for key, value in self.headers.items() if key != ENCODING}
        return Answer(self.code, complete[: len(complete) // 2], {**others, **({ENCODING: "gzip"} if packed else {})})


def status(
    code: int, reason: str, message: str, *, details: Json | None = None, retry_after: str | None = None
) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    headers = {"Retry-After": retry_after} if retry_after else {}
    return Answer(code, {**body, "code": code, **({"details": details} if details else {})}, headers)


def gone() -> bytes:
    """The line of a watch that came too late. source: kubernetes.io/docs/reference/using-api/api-concepts, "410 Gone
    responses".
    """
    words = status(410, "Expired", "too old resource version: 1 (2)").body
    return json.dumps({"type": "ERROR", "object": words}).encode() + b"\n"
