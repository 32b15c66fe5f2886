"""Requests to a Kubernetes API server, each sent once, and their outcomes."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import urllib3
from msgspec import Raw, Struct
from msgspec.json import Decoder, decode
from urllib3 import exceptions
from urllib3.exceptions import HTTPError

from xsft.effects.cluster.errors import Reply
from xsft.effects.cluster.kubeconfig import Access, Entry, entry_of, unusable
from xsft.effects.cluster.login import ClusterLogin, Credentials, tls_context
from xsft.effects.cluster.stream import PART, Stream
from xsft.effects.machine import clock
from xsft.effects.machine.retries import retry_after_s
from xsft.errors import Unreachable
from xsft.problems import Again
from xsft.reading.network_words import meaning
from xsft.spec.secrets import redact

T = TypeVar("T")

JSON = "application/json"
ANYTHING = "*/*"
ParseBody = Callable[[bytes], Any]
"""A function that parses the body of a successful answer. Raises ValueError if it is cut off."""

POOL_SIZE = 16
"""Connections kept open; one status read fetches up to eight logs in addition to its lists."""
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Addresses never reached through a proxy, as in kubectl (golang.org/x/net http/httpproxy)."""
NOT_THE_SERVERS = frozenset({400, 403, 404, 405})
"""Statuses of a web page that some server between here and the cluster sent. With any other status the page is of a
login or a gateway.
"""
PAGE = "(a web page instead of an answer)"
DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "doesn't match")
"""OpenSSL's and urllib3's words for errors that a retry cannot fix; a connection closed during TLS has none of them."""
UNSENT = (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError)
"""With these errors the request was certainly not executed."""


class Lost(Struct, frozen=True, kw_only=True):
    """A request without an answer."""

    reason: str
    sent: bool
    """The server may have executed the request."""
    fix: str
    id: str = "unreachable"
    again: Again = "helps"
    retry_after_s: float | None = None
    """As in a `Reply`; always None."""

    @property
    def passes(self) -> bool:
        """Return whether a retry can help."""
        return self.again == "helps"

    def failed(self, *, what: str = "") -> Unreachable:
        """Return it as an error; `what` states the outcome of the request."""
        return Unreachable(f"{self.reason} {what}".rstrip(), fix=self.fix, id=self.id, again=self.again)


class Connection:
    """A connection pool shared by threads: no retries, no redirects, no proxy for loopback. It logs in when it is
    created, so that a failed login is reported before any request.
    """

    def __init__(self, entry: Entry, login: ClusterLogin, *, env: Mapping[str, str]) -> None:
        self._entry, self._login, self._env = entry, login, env
        self._lock = threading.Lock()
        self._held: tuple[bytes, urllib3.PoolManager] | None = None
        self.server = entry.cluster.server.rstrip("/")
        self._pool(login.credentials())

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None, timeouts_s: tuple[float, float]
    ) -> urllib3.BaseHTTPResponse:
        """Send one request; its answer is not read yet. Raises urllib3's HTTPError, and as
        `ClusterLogin.credentials`.
        """
        credentials = self._login.credentials()
        login = {"Authorization": credentials.authorization} if credentials.authorization else {}
        return self._pool(credentials).request(
            method,
            f"{self.server}{path}",
            body=body,
            headers={**headers, **login, "User-Agent": "xsft"},
            timeout=urllib3.Timeout(connect=timeouts_s[0], read=timeouts_s[1]),
            preload_content=False,
            redirect=False,
            retries=False,
        )

    def _pool(self, credentials: Credentials) -> urllib3.PoolManager:
        """Return the pool; a new one if the login has another certificate."""
        with self._lock:
            if self._held is None or self._held[0] != credentials.certificate:
                try:
                    self._held = (credentials.certificate, self._new_pool(credentials))
                except (ValueError, HTTPError) as failed:
                    raise unusable(self._entry.context, str(failed)) from None
            return self._held[1]

    def _new_pool(self, credentials: Credentials) -> urllib3.PoolManager:
        name = self._entry.cluster.tls_server_name if self.server.startswith("https://") else ""
        options: dict[str, Any] = {"server_hostname": name, "assert_hostname": name} if name else {}
        options |= {"ssl_context": self._tls(credentials), "maxsize": POOL_SIZE}
        proxy = self._proxy()
        if not proxy:
            return urllib3.PoolManager(**options)
        user = urlsplit(proxy)
        login = urllib3.make_headers(proxy_basic_auth=f"{user.username}:{user.password or ''}") if user.username else {}
        return urllib3.ProxyManager(proxy, proxy_headers=login, **options)

    def _tls(self, credentials: Credentials) -> ssl.SSLContext | None:
        """Return the TLS context; None for a plain HTTP server, since reading the system's certificates takes 0.03
        CPU-s.
        """
        cluster = self._entry.cluster
        if cluster.insecure_skip_tls_verify:  # the user chose it: no warning for each request
            urllib3.disable_warnings(exceptions.InsecureRequestWarning)
        ca = cluster.certificate_authority_data
        if not (self.server.startswith("https://") or ca or credentials.certificate):
            return None
        return tls_context(ca=ca, verify=not cluster.insecure_skip_tls_verify, login=credentials)

    def _proxy(self) -> str | None:
        """Return the cluster's `proxy-url`, else the environment's proxy, as kubectl does."""
        if self._entry.cluster.proxy_url:
            return self._entry.cluster.proxy_url
        scheme = urlsplit(self.server).scheme
        proxy = self._env.get(f"{scheme}_proxy") or self._env.get(f"{scheme.upper()}_PROXY")
        if not proxy:
            return None
        from requests.utils import should_bypass_proxies  # slow to import, and most machines have no proxy

        never = ",".join(filter(None, (self._env.get("no_proxy") or self._env.get("NO_PROXY"), LOOPBACK)))
        return None if should_bypass_proxies(self.server, no_proxy=never) else proxy


def connection_for(access: Access, *, env: Mapping[str, str]) -> Connection:
    """Return the connection. Raises EnvironmentMissing if the context cannot be used or its login program is missing,
    Unreachable if the login gives no credentials.
    """
    entry = entry_of(access.context, access.kubeconfig)
    return Connection(entry, ClusterLogin(entry, access=access, env=env), env=env)


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
        content = None if body is None else json.dumps(body).encode()
        try:
            response = self._sent(method, path, headers, body=content, timeouts_s=self._timeouts_s)
            return self._good(response, read) if 200 <= response.status < 300 else self._refused(response)
        except (HTTPError, OSError) as failed:
            return lost(failed, self._access, host=self._host)

    def opened(self, path: str, *, read_timeout_s: float) -> Stream | Reply | Lost:
        """Send a GET whose answer is read as it arrives."""
        timeouts_s = (self._timeouts_s[0], read_timeout_s)
        try:
            response = self._sent("GET", path, {"Accept": ANYTHING}, body=None, timeouts_s=timeouts_s)
            return Stream(response) if response.status == 200 else self._refused(response)
        except (HTTPError, OSError) as failed:
            return lost(failed, self._access, host=self._host)

    @property
    def _host(self) -> str:
        return redact(self._connection.server)

    def _sent(self, method: str, path: str, headers: dict[str, str], **options: Any) -> urllib3.BaseHTTPResponse:
        response = self._connection.request(method, path, headers=headers, **options)
        self.heard_at = clock.monotonic()
        if date := response.headers.get("Date"):
            self.ahead_s = clock.ahead_s(date)
        return response

    def _good(self, response: urllib3.BaseHTTPResponse, read: ParseBody) -> Reply | Lost:
        content = b"".join(self._heard(response.stream(PART, decode_content=True)))
        try:
            return Reply(status=response.status, body=read(content))
        except ValueError:
            return self._cut_off() if _is_object(content) else self._no_kubernetes()

    def _refused(self, response: urllib3.BaseHTTPResponse) -> Reply | Lost:
        content = response.read()
        try:
            body = json.loads(content)
        except ValueError:
            if _is_object(content):  # a cut-off "no such run" could be read as "no such kind"
                return self._cut_off()
            body = content.decode("utf-8", "replace")
        page = content.lstrip()[:1] == b"<"
        if 300 <= response.status < 400 or (page and response.status in NOT_THE_SERVERS):
            return self._no_kubernetes()
        wait_s = retry_after_s(response.headers)
        return Reply(status=response.status, body=PAGE if page else body, retry_after_s=wait_s)

    def _heard(self, parts: Iterator[bytes]) -> Iterator[bytes]:
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
    """Return what a failed request means."""
    said = redact(" ".join(f"{type(failed).__name__} {failed}".split()))
    if any(sign in said for sign in DISTRUST):
        message = f"The TLS connection to the cluster (context {access.context}, {host}) failed: {meaning(said)}."
        fix = "Check certificate-authority-data and server of the context; for GKE fetch them again (gcloud)."
        return Lost(reason=message, sent=False, fix=fix, id="tls", again="unsure")
    try_it = f"`kubectl --context {access.context} version` sends a similar request"
    fix = f"Check the network, the VPN and the context's server; {try_it}."
    if isinstance(failed, exceptions.ProxyError):
        fix = f"Check the proxy (HTTPS_PROXY, NO_PROXY, proxy-url of the context {access.context})."
    message = f"The cluster (context {access.context}, {host}) cannot be reached: {meaning(said)}."
    return Lost(reason=message, sent=not isinstance(failed, UNSENT), fix=fix)


read_object = Decoder(dict[str, Any]).decode
"""Return the parsed object. Raises ValueError if it is not a JSON object."""


class _ObjectList(Struct, frozen=True):
    """A parser of a list whose objects are decoded one by one."""

    items: tuple[Raw, ...] | None = None


_LIST = Decoder(_ObjectList)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def read_items(content: bytes, *, reduce: Callable[[Any], T]) -> tuple[T, ...]:
    """Return the list's objects, each reduced. Raises ValueError if it is not a complete JSON object."""
    return tuple(reduce(decode(one)) for one in _LIST.decode(content).items or ())


def _is_object(content: bytes) -> bool:
    return content.lstrip()[:1] == b"{"
