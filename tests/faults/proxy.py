"""A misbehaving proxy in front of a real API server: TLS behind it, plain HTTP on loopback before it.

The client's Authorization is passed on, so a token that has expired is refused by the server itself. Whom the server
takes the client for may be changed (`impersonate`): then its own RBAC decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import urllib3
from urllib3.exceptions import HTTPError

from tests.faults.answer import Answer
from tests.faults.fault import Seen
from tests.faults.server import Front, Unanswered, served

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"})
RESENT = frozenset({"content-length", "date"})
"""Headers that the front says anew."""
PART = 65536
PATIENCE_S = 60.0


@dataclass
class Upstream:
    """The API server."""

    server: str
    ca: Path
    impersonate: str | None = None
    """A user name."""
    pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        self.pool = urllib3.PoolManager(ca_certs=str(self.ca), maxsize=8, retries=False)

    def answer(self, request: Seen) -> Answer:
        """Raises Unanswered. A stream is passed on as it comes."""
        streams = any(request.query.get(name, "").lower() in ("true", "1") for name in ("watch", "follow"))
        try:
            reply = self.pool.request(
                request.method,
                self.server + request.target,
                body=request.raw or None,
                headers=self._headers(request),
                timeout=None if streams else PATIENCE_S,
                preload_content=not streams,
                decode_content=False,
            )
        except HTTPError as failed:
            raise Unanswered from failed
        headers = {key: value for key, value in reply.headers.items() if key.lower() not in HOP_BY_HOP | RESENT}
        return Answer(reply.status, None if streams else reply.data, headers, _parts(reply) if streams else None)

    def _headers(self, request: Seen) -> dict[str, str]:
        passed = {key: value for key, value in request.headers.items() if key not in HOP_BY_HOP | RESENT}
        return {**passed, **({"Impersonate-User": self.impersonate} if self.impersonate else {})}


@contextmanager
def proxying(upstream: Upstream) -> Iterator[Front]:
    with served(Front(behind=upstream.answer)) as front:
        yield front
    upstream.pool.clear()


def _parts(reply: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the parts as they come; a broken upstream stream breaks this one too."""
    try:
        yield from reply.stream(PART, decode_content=False)
    except HTTPError as failed:
        raise Unanswered from failed
    finally:
        reply.close()
