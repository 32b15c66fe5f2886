"""Answers of a Kubernetes API server: a reply with its parsed body, or the loss of a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Raw, Struct, ValidationError, convert
from msgspec.json import Decoder, decode
from urllib3 import BaseHTTPResponse, exceptions

from xsft.base.errors import Unreachable
from xsft.base.lenient import JsonObject, mapping, rows, text
from xsft.base.network_words import meaning
from xsft.base.problems import RetryAdvice
from xsft.base.secrets import redact
from xsft.cluster.access import Access
from xsft.cluster.objects import BadObject, ObjectList, ObjectMetadata, without_nulls
from xsft.machine.bounded import UnusableAnswer, parse_bounded
from xsft.machine.deadline import retry_after_s

T = TypeVar("T")

ParseBody = Callable[[bytes], Any]
"""A function that parses the body of a successful answer. Raises ValueError if it is cut off, UnusableAnswer if it is
outside the limits of `machine.bounded` or no such object.
"""

BUSY = frozenset({429, 500, 503, 504})
"""HTTP statuses after which trying again can help."""
MAX_OBJECTS = 100_000
"""Limit for one list."""
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
        causes = rows(self._details.get("causes"))
        return tuple((str(cause.get("field", "")), redact(str(cause.get("message", "")))) for cause in causes)

    @property
    def _details(self) -> dict[str, Any]:
        return mapping(self.body, "details")


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
        body = read(content) if ok else parse_bounded(content, decode)
    except UnusableAnswer as unusable:
        return unusable_answer(unusable, access, host=host)
    except ValueError:
        if start == b"{":  # a cut-off "no such run" could be read as "no such kind"
            reason = f"The cluster (context {access.context}) sent an incomplete answer: its JSON ends early."
            # usually by a proxy that gave up, since the server's own answer states its length
            return LostAnswer(reason=reason, sent=True, fix="Try again; if it persists, check the proxies in between.")
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


def late_answer(access: Access, *, host: str, sent: bool) -> LostAnswer:
    """Return the loss of a request that had no complete answer at the verb's deadline. `sent`: it may be executed."""
    reason = f"The cluster (context {access.context}, {host}) did not answer in time."
    fix = f"Check the network, the VPN and the server of the context {access.context}, and try again."
    return LostAnswer(reason=reason, sent=sent, fix=fix)


def _not_kubernetes(access: Access, *, host: str) -> LostAnswer:
    """Return the loss for an answer that is not from Kubernetes: usually the page of a proxy or of a login."""
    return _not_served(f"{host} answers, but not as a Kubernetes API server.", access)


def unusable_answer(unusable: UnusableAnswer, access: Access, *, host: str) -> LostAnswer:
    """Return the loss for an answer that xsft refuses to read."""
    return _not_served(f"The answer of the cluster (context {access.context}, {host}) {unusable}.", access)


def _not_served(reason: str, access: Access) -> LostAnswer:
    fix = f"Check the server of the context {access.context}, and proxies (HTTPS_PROXY, NO_PROXY)."
    return LostAnswer(reason=reason, sent=True, fix=fix, id="not-served", again="unsure")


_decode_any = Decoder(dict[str, Any]).decode


def read_object(content: bytes) -> dict[str, Any]:
    """Return the parsed JSON object. Raises ValueError if it is none."""
    return parse_bounded(content, _decode_any)


class _Metadata(ObjectMetadata, frozen=True, kw_only=True):
    managed_fields: tuple[dict[str, Any], ...] = ()


class _NamedObject(Struct, frozen=True, kw_only=True):
    """The part of an object that every kind has."""

    metadata: _Metadata
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


convert({"metadata": {"name": ""}}, _NamedObject)
"""At import: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def read_named(content: bytes) -> JsonObject:
    """Return a Kubernetes object, without nulls: Go reads them as no value. Raises ValueError if it is cut off."""
    return _named_object(read_object(content))


def read_list(content: bytes) -> tuple[JsonObject, ...]:
    """Return the objects of a list, as `read_named` does."""
    items = read_object(content).get("items") or ()
    if not isinstance(items, list | tuple):
        raise UnusableAnswer("has no list of objects")
    return tuple(map(_named_object, items))


def _named_object(document: Any) -> JsonObject:
    try:
        convert(without_nulls(document), _NamedObject)
    except ValidationError as wrong:
        raise UnusableAnswer(f"holds something that is no object of Kubernetes ({wrong})") from None
    return {key: value for key, value in document.items() if value is not None}


class _RawList(Struct, frozen=True, kw_only=True):
    items: tuple[Raw, ...] | None = None


_LIST = Decoder(_RawList)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def read_objects(content: bytes, *, kind: Decoder[T]) -> ObjectList[T]:
    """Return the objects of a list. Raises ValueError if it is not a complete JSON object, UnusableAnswer if it holds
    something without a name, or too much.
    """
    listed = parse_bounded(content, _LIST.decode, counted=(b",",))
    if len(listed.items or ()) > MAX_OBJECTS:
        raise UnusableAnswer(f"has more than {MAX_OBJECTS:,} objects")
    objects: list[T] = []
    bad: list[BadObject] = []
    for raw in listed.items or ():
        decoded = _decode_object(raw, kind)
        if isinstance(decoded, BadObject):
            bad.append(decoded)
        else:
            objects.append(decoded)
    return ObjectList(objects=tuple(objects), bad=tuple(bad))


def read_typed(content: bytes, *, kind: Decoder[T]) -> T:
    """Return the object. Raises ValueError if it is cut off, UnusableAnswer if it has another shape."""
    read_object(content)
    decoded = _decode_object(content, kind)
    if isinstance(decoded, BadObject):
        raise UnusableAnswer(f"holds an object of another shape ({decoded.why})")
    return decoded


def _decode_object(content: bytes | Raw, kind: Decoder[T]) -> T | BadObject:
    try:
        return parse_bounded(content, kind.decode)
    except ValidationError:  # perhaps only for a null
        document = without_nulls(parse_bounded(content, decode))
    try:
        return convert(document, kind.type)
    except ValidationError as odd:
        name = text(mapping(document, "metadata").get("name"))
        if name is None:
            raise UnusableAnswer("holds something that is no object of Kubernetes: it has no name") from None
        return BadObject(name=name, why=str(odd))
