"""Answers of a Kubernetes API server: a reply with its parsed body, or the loss of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder, decode
from urllib3 import BaseHTTPResponse, exceptions

from xsft.effects.cluster.access import Access
from xsft.effects.machine.retries import retry_after_s
from xsft.errors import Unreachable
from xsft.problems import RetryAdvice
from xsft.reading.network_words import meaning
from xsft.spec.secrets import redact

T = TypeVar("T")

ParseBody = Callable[[bytes], Any]
"""A function that parses the body of a successful answer. Raises ValueError if it is cut off."""

BUSY = frozenset({429, 500, 503, 504})
"""HTTP statuses after which trying again can help."""
MAX_MESSAGE = 1500
"""Characters; a webhook may quote a whole object."""
NOT_THE_SERVERS = frozenset({400, 403, 404, 405})
"""Statuses of a web page that some server between here and the cluster sent. With any other status the page is of a
login or a gateway.
"""
PAGE = "(a web page instead of an answer)"
DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "doesn't match")
"""OpenSSL's and urllib3's words for errors that a retry cannot fix; a connection closed during TLS has none of them."""
UNSENT = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError)
"""With these errors the request was certainly not executed."""


class Reply(Struct, frozen=True, kw_only=True):
    """An answer of the API server."""

    status: int
    body: Any
    """Parsed JSON, or the text if it is not JSON."""
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def passes(self) -> bool:
        """Return whether a retry can help."""
        return self.status in BUSY

    @property
    def reason(self) -> str:
        return f"HTTP {self.status} {self.message}"

    @property
    def message(self) -> str:
        """Return the server's message, redacted."""
        text = self.body.get("message", "") if isinstance(self.body, dict) else str(self.body or "")
        return redact(" ".join(str(text).split()))[:MAX_MESSAGE]

    @property
    def not_served(self) -> bool:
        """Return whether the kind itself is unknown: the server's 404 for a path is text, for an object it is a
        Status.
        """
        return self.status == 404 and not self._details.get("name") and self._details.get("kind") is None

    @property
    def missing_namespace(self) -> bool:
        return self.status == 404 and self._details.get("kind") == "namespaces"

    @property
    def by_admission(self) -> bool:
        """Return whether a webhook or a quota refused it, not RBAC."""
        return self.status == 403 and re.search(r"\bcannot \S+ resource\b|\brequires one of\b", self.message) is None

    @property
    def causes(self) -> tuple[tuple[str, str], ...]:
        """Return (field, message) of each cause."""
        found = self._details.get("causes") or []
        return tuple((str(c.get("field", "")), redact(str(c.get("message", "")))) for c in found if isinstance(c, dict))

    @property
    def _details(self) -> dict[str, Any]:
        details = self.body.get("details") if isinstance(self.body, dict) else None
        return details if isinstance(details, dict) else {}


class LostAnswer(Struct, frozen=True, kw_only=True):
    """A request without an answer."""

    reason: str
    sent: bool
    """The server may have executed the request."""
    fix: str
    id: str = "unreachable"
    again: RetryAdvice = "helps"
    retry_after_s: float | None = None
    """As in a `Reply`; always None."""

    @property
    def passes(self) -> bool:
        """Return whether a retry can help."""
        return self.again == "helps"

    def failed(self, *, what: str = "") -> Unreachable:
        """Return it as an error; `what` states the outcome of the request."""
        return Unreachable(f"{self.reason} {what}".rstrip(), fix=self.fix, id=self.id, again=self.again)


def reply_of(
    content: bytes, response: BaseHTTPResponse, *, read: ParseBody, access: Access, host: str
) -> Reply | LostAnswer:
    """Return what an answer with this content means. `read` parses a successful one."""
    status, start = response.status, content.lstrip()[:1]
    if 300 <= status < 400 or (start == b"<" and status in NOT_THE_SERVERS):
        return _not_kubernetes(access, host=host)
    ok = 200 <= status < 300
    try:
        body = read(content) if ok else json.loads(content)
    except ValueError:
        if start == b"{":  # a cut-off "no such run" could be read as "no such kind"
            return _cut_off(access)
        if ok:
            return _not_kubernetes(access, host=host)
        body = PAGE if start == b"<" else content.decode("utf-8", "replace")
    return Reply(status=status, body=body, retry_after_s=retry_after_s(response.headers))


def lost_answer(failed: Exception, access: Access, *, host: str) -> LostAnswer:
    """Return what a failed request means."""
    text = redact(" ".join(f"{type(failed).__name__} {failed}".split()))
    if any(sign in text for sign in DISTRUST):
        message = f"The TLS connection to the cluster (context {access.context}, {host}) failed: {meaning(text)}."
        fix = "Check certificate-authority-data and server of the context; for GKE fetch them again (gcloud)."
        return LostAnswer(reason=message, sent=False, fix=fix, id="tls", again="unsure")
    try_it = f"`kubectl --context {access.context} version` sends a similar request"
    fix = f"Check the network, the VPN and the context's server; {try_it}."
    if isinstance(failed, exceptions.ProxyError):
        fix = f"Check the proxy (HTTPS_PROXY, NO_PROXY, proxy-url of the context {access.context})."
    message = f"The cluster (context {access.context}, {host}) cannot be reached: {meaning(text)}."
    return LostAnswer(reason=message, sent=not isinstance(failed, UNSENT), fix=fix)


def _cut_off(access: Access) -> LostAnswer:
    """Return the loss for an answer that is cut off: usually by a proxy that gave up, since the server's own answer
    states its length.
    """
    reason = f"The cluster (context {access.context}) sent an incomplete answer: its JSON ends early."
    return LostAnswer(reason=reason, sent=True, fix="Try again; if it persists, check the proxies in between.")


def _not_kubernetes(access: Access, *, host: str) -> LostAnswer:
    """Return the loss for an answer that is not from Kubernetes: usually the page of a proxy or of a login."""
    return LostAnswer(
        reason=f"{host} answers, but not as a Kubernetes API server.",
        sent=True,
        fix=f"Check the server of the context {access.context}, and proxies (HTTPS_PROXY, NO_PROXY).",
        id="not-served",
        again="unsure",
    )


read_object = Decoder(dict[str, Any]).decode
"""Return the parsed object. Raises ValueError if it is not a JSON object."""


class _ObjectList(Struct, frozen=True, kw_only=True):
    """A parser of a list whose objects are decoded one by one."""

    items: tuple[Raw, ...] | None = None


_LIST = Decoder(_ObjectList)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def read_items(content: bytes, *, reduce: Callable[[Any], T]) -> tuple[T, ...]:
    """Return the list's objects, each reduced. Raises ValueError if it is not a complete JSON object."""
    return tuple(reduce(decode(one)) for one in _LIST.decode(content).items or ())
