"""One request to a Kubernetes API server, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from msgspec import Struct
from urllib3 import BaseHTTPResponse, exceptions
from urllib3.exceptions import HTTPError

from xsft.effects.cluster.config import Access
from xsft.effects.cluster.connection import Connection
from xsft.effects.cluster.errors import Reply
from xsft.effects.machine import clock
from xsft.reading.network_words import meaning
from xsft.spec.secrets import redact

JSON = "application/json"
ANYTHING = "*/*"
Read = Callable[[Iterable[bytes]], Any]
"""Makes the body of a good answer out of its parts, as they come; raises ValueError where that is cut off."""

PART = 16384
"""Bytes of a stream that are read at once, at most; who waits sees each of them as a sign of life."""
NOT_THE_SERVERS = frozenset({400, 403, 404, 405})
"""Of a web page: somebody on the way said it. Else it tells of a login or a gateway, whoever says it."""
PAGE = "(a web page instead of an answer)"
DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "doesn't match")
"""OpenSSL's and urllib3's words for what time does not mend; a connection cut in TLS is none of them."""


class Lost(Struct, frozen=True, kw_only=True):
    """No answer came."""

    reason: str
    sent: bool
    """The server may have done what was asked."""
    fix: str
    id: str = "unreachable"
    again: bool = True
    """Whether asking once more may help."""


class Stream:
    """An answer that goes on."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Whole lines, as they come. Raises OSError where the connection breaks or is silent for too long: what had
        come of a line is dropped then.
        """
        rest = b""
        try:
            for part in self._response.stream(PART):
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
        except (HTTPError, ValueError, AttributeError) as broken:  # interrupted meanwhile: the latter two
            raise OSError(meaning(f"{type(broken).__name__} {broken}")) from None
        if rest:
            yield rest

    def interrupt(self) -> None:
        """From another thread than the one that reads: that one gets an OSError. (Closing would wait for it.)"""
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # it has ended or was closed meanwhile
            self._response.shutdown()

    def close(self) -> None:
        """From the thread that reads."""
        self._response.close()


class Http:
    """`timeouts_s`: to connect, and between two parts of an answer."""

    def __init__(self, connection: Connection, *, access: Access, timeouts_s: tuple[float, float]) -> None:
        self._connection = connection
        self._access = access
        self._timeouts_s = timeouts_s
        self.heard_at = float("-inf")
        """`clock.monotonic` of the last byte of any answer."""
        self.ahead_s = 0.0
        """How far the server's clock is ahead of this machine's, by the Date of its last answer."""

    def request(self, method: str, path: str, *, body: Any, accept: str, read: Read) -> Reply | Lost:
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "Content-Type": JSON}
        try:
            return self._answered(self._sent(method, path, headers, body=body, timeouts_s=self._timeouts_s), read)
        except (HTTPError, OSError) as failed:
            return lost(failed, self._access, host=self._host)

    def opened(self, path: str, *, read_timeout_s: float) -> Stream | Reply | Lost:
        """A GET whose answer is read while it comes."""
        timeouts_s = (self._timeouts_s[0], read_timeout_s)
        try:
            response = self._sent("GET", path, {"Accept": ANYTHING}, body=None, timeouts_s=timeouts_s)
            if response.status == 200:
                return Stream(response)
            return Reply(status=response.status, body=_parsed(response.read()))
        except (HTTPError, OSError) as failed:
            return lost(failed, self._access, host=self._host)

    def _sent(
        self, method: str, path: str, headers: dict[str, str], *, body: Any, timeouts_s: tuple[float, float]
    ) -> BaseHTTPResponse:
        content = None if body is None else json.dumps(body).encode()
        response = self._connection.request(method, path, headers=headers, body=content, timeouts_s=timeouts_s)
        self.heard_at = clock.monotonic()
        if date := response.headers.get("Date"):
            self.ahead_s = clock.ahead_s(date)
        return response

    def _answered(self, response: Any, read: Read) -> Reply | Lost:
        if 200 <= response.status < 300:
            return self._good(response, read)
        content, wait = response.read(), _seconds(response.headers.get("Retry-After"))
        body = _parsed(content)
        if isinstance(body, str) and _is_object(content):  # half of "no such run" reads as "no such kind"
            return self._cut_off()
        page = content.lstrip()[:1] == b"<"
        if 300 <= response.status < 400 or (page and response.status in NOT_THE_SERVERS):
            return self._no_kubernetes()
        return Reply(status=response.status, body=PAGE if page else body, retry_after_s=wait)

    def _good(self, response: Any, read: Read) -> Reply | Lost:
        parts = self._heard(response.stream(PART, decode_content=True))
        first = next(parts, b"")
        try:
            body = read(chain((first,), parts))
        except ValueError:
            response.close()  # whatever else comes is not waited for
            return self._cut_off() if _is_object(first) else self._no_kubernetes()
        response.drain_conn()  # else the connection is not used again
        return Reply(status=response.status, body=body)

    @property
    def _host(self) -> str:
        return redact(self._connection.server)

    def _heard(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            self.heard_at = clock.monotonic()
            yield part

    def _cut_off(self) -> Lost:
        """A proxy that gave up, most often; the server's own answer says how long it is."""
        reason = f"The cluster (context {self._access.context}) answered with half an answer: its JSON ends early."
        return Lost(reason=reason, sent=True, fix="Try again; if it stays so, look at the proxies on the way.")

    def _no_kubernetes(self) -> Lost:
        """The page of a proxy or of a login, most often."""
        return Lost(
            reason=f"{self._host} answers, but not as a Kubernetes API server.",
            sent=True,
            fix=f"Check the server of the context {self._access.context}, and proxies (HTTPS_PROXY, NO_PROXY).",
            id="not-served",
            again=False,
        )


def lost(failed: Exception, access: Access, *, host: str) -> Lost:
    """What a broken request means; only what failed before it was sent is known not to have happened."""
    said = redact(" ".join(f"{type(failed).__name__} {failed}".split()))
    if any(sign in said for sign in DISTRUST):
        message = f"The TLS connection to the cluster (context {access.context}, {host}) failed: {meaning(said)}."
        fix = "Check certificate-authority-data and server of the context; for GKE fetch them again (gcloud)."
        return Lost(reason=message, sent=False, fix=fix, id="tls", again=False)
    unsent = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError)
    fix = (
        f"Check the network, the VPN and the context's server; `kubectl --context {access.context} version` asks the"
        " same."
    )
    if isinstance(failed, exceptions.ProxyError):
        fix = f"Check the proxy (HTTPS_PROXY, NO_PROXY, proxy-url of the context {access.context})."
    message = f"The cluster (context {access.context}, {host}) cannot be reached: {meaning(said)}."
    return Lost(reason=message, sent=not isinstance(failed, unsent), fix=fix)


def read_object(parts: Iterable[bytes]) -> Any:
    """Raises ValueError where it is no JSON object."""
    found = json.loads(b"".join(parts))
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as for any other answer that is none
    return found


def _is_object(content: bytes) -> bool:
    return content.lstrip()[:1] == b"{"


def _parsed(content: bytes) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _seconds(retry_after: str | None) -> float | None:
    """Kubernetes sends seconds; a date is taken as not said."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        return None
