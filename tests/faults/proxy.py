"""A misbehaving proxy in front of a real API server: TLS behind it, plain HTTP on loopback before it.

The client's Authorization is passed on, so a token that has expired is refused by the server itself. Whom the server
takes the client for may be changed (`impersonate`): then its own RBAC decides.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

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
    context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.context = ssl.create_default_context(cafile=str(self.ca))

    def answer(self, one: Seen) -> Answer:
        """Raises Unanswered. A stream is passed on as it comes."""
        at, patience_s = urlsplit(self.server), None if _streams(one) else PATIENCE_S
        connection = http.client.HTTPSConnection(str(at.hostname), at.port, context=self.context, timeout=patience_s)
        try:
            connection.request(one.method, one.target, body=one.raw or None, headers=self._headers(one))
            reply = connection.getresponse()
            headers = {key: value for key, value in reply.getheaders() if key.lower() not in HOP_BY_HOP | RESENT}
            if _streams(one) and reply.status == 200:
                return Answer(reply.status, None, headers, stream=_parts(reply, connection))
            with contextlib.closing(connection):
                return Answer(reply.status, reply.read(), headers)
        except (OSError, http.client.HTTPException) as failed:
            connection.close()
            raise Unanswered from failed

    def _headers(self, one: Seen) -> dict[str, str]:
        passed = {key: value for key, value in one.headers.items() if key not in HOP_BY_HOP | RESENT}
        return {**passed, **({"Impersonate-User": self.impersonate} if self.impersonate else {})}


@contextmanager
def proxying(upstream: Upstream) -> Iterator[Front]:
    with served(Front(behind=upstream.answer)) as front:
        yield front


def _streams(one: Seen) -> bool:
    return any(one.query.get(name, "").lower() in ("true", "1") for name in ("watch", "follow"))


def _parts(reply: http.client.HTTPResponse, connection: http.client.HTTPSConnection) -> Iterator[bytes]:
    """What comes, when it comes; a stream that breaks behind breaks before."""
    try:
        while part := reply.read1(PART):
            yield part
    except (OSError, http.client.HTTPException) as failed:
        raise Unanswered from failed
    finally:
        connection.close()
