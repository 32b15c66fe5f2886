"""Requests to a Kubernetes API server, each sent once, and their outcomes."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3 import exceptions
from urllib3.exceptions import HTTPError

from xsft.effects.cluster.access import Access
from xsft.effects.cluster.answers import Lost, ParseBody, Reply, cut_off, is_object, lost, not_kubernetes
from xsft.effects.cluster.kubeconfig import Entry, entry_of, unusable
from xsft.effects.cluster.login import ClusterLogin, Credentials, tls_context
from xsft.effects.cluster.stream import PART, Stream
from xsft.effects.machine import clock
from xsft.effects.machine.retries import retry_after_s
from xsft.spec.secrets import redact

JSON = "application/json"


ANYTHING = "*/*"


POOL_SIZE = 16
"""Connections kept open; one status read fetches up to eight logs in addition to its lists."""


LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Addresses never reached through a proxy, as in kubectl (golang.org/x/net http/httpproxy)."""


NOT_THE_SERVERS = frozenset({400, 403, 404, 405})
"""Statuses of a web page that some server between here and the cluster sent. With any other status the page is of a
login or a gateway.
"""


PAGE = "(a web page instead of an answer)"


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
        pair = f"{unquote(user.username or '')}:{unquote(user.password or '')}"  # as Go's net/url decodes them
        login = urllib3.make_headers(proxy_basic_auth=pair) if user.username else {}
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
            return cut_off(self._access) if is_object(content) else not_kubernetes(self._access, host=self._host)

    def _refused(self, response: urllib3.BaseHTTPResponse) -> Reply | Lost:
        content = response.read()
        try:
            body = json.loads(content)
        except ValueError:
            if is_object(content):  # a cut-off "no such run" could be read as "no such kind"
                return cut_off(self._access)
            body = content.decode("utf-8", "replace")
        page = content.lstrip()[:1] == b"<"
        if 300 <= response.status < 400 or (page and response.status in NOT_THE_SERVERS):
            return not_kubernetes(self._access, host=self._host)
        wait_s = retry_after_s(response.headers)
        return Reply(status=response.status, body=PAGE if page else body, retry_after_s=wait_s)

    def _heard(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        for part in parts:
            self.heard_at = clock.monotonic()
            yield part
