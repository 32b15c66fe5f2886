"""One request to a Kubernetes API server, and its outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, decode
from urllib3 import BaseHTTPResponse, exceptions
from urllib3.exceptions import HTTPError

from xsft.effects.cluster.config import Access
from xsft.effects.cluster.connection import Connection
from xsft.effects.cluster.errors import Reply
from xsft.effects.machine import clock
from xsft.effects.machine.retries import retry_after_s
from xsft.errors import Unreachable
from xsft.problems import Again
from xsft.reading.network_words import meaning
from xsft.spec.secrets import redact

T = TypeVar("T")

JSON = "application/json"
ANYTHING = "*/*"
ParseBody = Callable[[Iterable[bytes]], Any]
"""A function that parses the body of a successful answer from its parts as they arrive. Raises ValueError if it is cut
off.
"""

PART = 16384
"""Maximum bytes read from a stream at once; each part counts as activity for the waiting thread."""
NOT_THE_SERVERS = frozenset({400, 403, 404, 405})
"""Statuses of a web page that some server between here and the cluster sent. With any other status the page is of a
login or a gateway.
"""
PAGE = "(a web page instead of an answer)"
DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "doesn't match")
"""OpenSSL's and urllib3's words for errors that a retry cannot fix; a connection closed during TLS has none of them."""


class Lost(Struct, frozen=True, kw_only=True):
    """A request without an answer."""

    reason: str
    sent: bool
    """The server may have executed the request."""
    fix: str
    id: str = "unreachable"
    again: Again = "helps"

    @property
    def passes(self) -> bool:
        """Return whether a retry can help."""
        return self.again == "helps"

    def failed(self, *, what: str = "") -> Unreachable:
        """Return it as an error; `what` states the outcome of the request."""
        return Unreachable(f"{self.reason} {what}".rstrip(), fix=self.fix, id=self.id, again=self.again)


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they arrive. Raises OSError if the connection breaks or is silent for too long; a
        partial line is dropped then.
        """
        rest = b""
        try:
            for part in self._response.stream(PART):
                *whole, rest = (rest + part).split(b"\n")
                yield from whole
        except (HTTPError, ValueError, AttributeError) as broken:  # the latter two if it was interrupted
            raise OSError(meaning(f"{type(broken).__name__} {broken}")) from None
        if rest:
            yield rest

    def interrupt(self) -> None:
        """Interrupt the reading thread, which gets an OSError. Call this from another thread. (Closing would wait for
        the reader.)
        """
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # it may have ended or been closed
            self._response.shutdown()

    def close(self) -> None:
        """Close the stream. Call this from the reading thread."""
        self._response.close()


class Http:
    """A client of one server. `timeouts_s`: to connect, and between two parts of an answer."""

    def __init__(self, connection: Connection, *, access: Access, timeouts_s: tuple[float, float]) -> None:
        self._connection = connection
        self._access = access
        self._timeouts_s = timeouts_s
        self.heard_at = float("-inf")
        """The time of the last byte of any answer, by `clock.monotonic`."""
        self.ahead_s = 0.0
        """How many seconds the server's clock is ahead of this machine's, by the Date of its last answer."""

    def request(self, method: str, path: str, *, body: Any, accept: str, read: ParseBody) -> Reply | Lost:
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "Content-Type": JSON}
        try:
            return self._answered(self._sent(method, path, headers, body=body, timeouts_s=self._timeouts_s), read)
        except (HTTPError, OSError) as failed:
            return lost(failed, self._access, host=self._host)

    def opened(self, path: str, *, read_timeout_s: float) -> Stream | Reply | Lost:
        """Send a GET whose answer is read as it arrives."""
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

    def _answered(self, response: Any, read: ParseBody) -> Reply | Lost:
        if 200 <= response.status < 300:
            return self._good(response, read)
        content, wait = response.read(), retry_after_s(response.headers)
        body = _parsed(content)
        if isinstance(body, str) and _is_object(content):  # a cut-off "no such run" could be read as "no such kind"
            return self._cut_off()
        page = content.lstrip()[:1] == b"<"
        if 300 <= response.status < 400 or (page and response.status in NOT_THE_SERVERS):
            return self._no_kubernetes()
        return Reply(status=response.status, body=PAGE if page else body, retry_after_s=wait)

    def _good(self, response: Any, read: ParseBody) -> Reply | Lost:
        parts = self._heard(response.stream(PART, decode_content=True))
        first = next(parts, b"")
        try:
            body = read(chain((first,), parts))
        except ValueError:
            response.close()  # do not wait for the rest
            return self._cut_off() if _is_object(first) else self._no_kubernetes()
        response.drain_conn()  # else the connection is not reused
        return Reply(status=response.status, body=body)

    @property
    def _host(self) -> str:
        return redact(self._connection.server)

    def _heard(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            self.heard_at = clock.monotonic()
            yield part

    def _cut_off(self) -> Lost:
        """Return the loss for an answer that is cut off: usually by a proxy that gave up, since the server's own answer
        states its length.
        """
        reason = f"The cluster (context {self._access.context}) sent an incomplete answer: its JSON ends early."
        return Lost(reason=reason, sent=True, fix="Try again; if it persists, check the proxies in between.")

    def _no_kubernetes(self) -> Lost:
        """Return the loss for an answer that is not from Kubernetes: usually the page of a proxy or of a login."""
        return Lost(
            reason=f"{self._host} answers, but not as a Kubernetes API server.",
            sent=True,
            fix=f"Check the server of the context {self._access.context}, and proxies (HTTPS_PROXY, NO_PROXY).",
            id="not-served",
            again="unsure",
        )


def lost(failed: Exception, access: Access, *, host: str) -> Lost:
    """Return what a failed request means. It is certain not to have been executed only if it failed before it was
    sent.
    """
    said = redact(" ".join(f"{type(failed).__name__} {failed}".split()))
    if any(sign in said for sign in DISTRUST):
        message = f"The TLS connection to the cluster (context {access.context}, {host}) failed: {meaning(said)}."
        fix = "Check certificate-authority-data and server of the context; for GKE fetch them again (gcloud)."
        return Lost(reason=message, sent=False, fix=fix, id="tls", again="unsure")
    unsent = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError)
    fix = (
        f"Check the network, the VPN and the context's server; `kubectl --context {access.context} version` sends "
        "a similar request."
    )
    if isinstance(failed, exceptions.ProxyError):
        fix = f"Check the proxy (HTTPS_PROXY, NO_PROXY, proxy-url of the context {access.context})."
    message = f"The cluster (context {access.context}, {host}) cannot be reached: {meaning(said)}."
    return Lost(reason=message, sent=not isinstance(failed, unsent), fix=fix)


def read_object(parts: Iterable[bytes]) -> Any:
    """Return the parsed object. Raises ValueError if it is not a JSON object."""
    found = json.loads(b"".join(parts))
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as for any other answer that is none
    return found


class _ObjectList(Struct, frozen=True):
    """A parser of a list whose objects are decoded one by one."""

    items: tuple[Raw, ...] | None = None


_LIST = Decoder(_ObjectList)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def read_items(parts: Iterable[bytes], *, reduce: Callable[[Any], T]) -> tuple[T, ...]:
    """Return the list's objects, each reduced. Raises ValueError if it is not a complete JSON object."""
    listed = _LIST.decode(b"".join(parts))
    return tuple(reduce(decode(one)) for one in listed.items or ())


def _is_object(content: bytes) -> bool:
    return content.lstrip()[:1] == b"{"


def _parsed(content: bytes) -> Any:
    text = content.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text
