"""Requests to a Kubernetes API server, each sent once, and their outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from xsft.base.network_words import keeps_secrets, meaning
from xsft.cluster.access import Access, Entry, entry_of, unusable_context
from xsft.cluster.answers import (
    LostAnswer,
    ParseBody,
    Reply,
    late_answer,
    lost_answer,
    read_object,
    reply_of,
    unusable_answer,
)
from xsft.cluster.login import ClusterLogin, Credentials, tls_context
from xsft.machine import clock
from xsft.machine.bounded import MAX_BYTES, BoundedBytes, UnusableAnswer
from xsft.machine.deadline import NEVER, Deadline
from xsft.machine.parallel import start

MAX_LINE_BYTES = 2**20
"""A longer line is passed on in parts."""


class Stream:
    """An answer that is read as it arrives."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Yield whole lines as they arrive. Raises OSError if the connection breaks or is silent for too long; a
        partial line is dropped then.
        """
        torn = b""
        try:
            for part in self._response.stream(decode_content=True):
                *lines, torn = (torn + part).split(b"\n")
                yield from lines
                if len(torn) > MAX_LINE_BYTES:
                    yield torn
                    torn = b""
            if torn:
                yield torn
        except (HTTPError, ValueError, AttributeError) as broken:  # the latter two if it was interrupted
            raise OSError(meaning(f"{type(broken).__name__} {broken}")) from None

    def interrupt(self) -> None:
        """Interrupt the reading thread, which gets an OSError. Call this from another thread. (Closing would wait for
        the reader.)
        """
        with suppress(OSError, ValueError, AttributeError, RuntimeError):  # it may have ended or been closed
            self._response.shutdown()

    def close(self) -> None:
        """Close the stream. Call this from the reading thread."""
        self._response.close()


T = TypeVar("T")

LARGE_BYTES = 16 * 2**20
_ONE_LARGE = Lock()
"""Held while more than LARGE_BYTES of an answer are read and parsed: xsft reads several lists at once."""
JSON = "application/json"
ANYTHING = "*/*"
PART = 16384
"""Maximum bytes read at once."""
POOL_SIZE = 16
"""Connections kept open; one status read fetches up to eight logs in addition to its lists."""
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Addresses never reached through a proxy, as in kubectl (golang.org/x/net http/httpproxy)."""


def http_for(access: Access, *, env: Mapping[str, str], timeouts_s: tuple[float, float]) -> Http:
    """Return the client. Raises EnvironmentMissing if the context cannot be used or its login program is missing,
    Unreachable if the login gives no credentials.
    """
    entry = entry_of(access.context, access.kubeconfig)
    login = ClusterLogin(entry, gke=access.gke, env=env)
    pool = lru_cache(maxsize=1)(partial(pool_for, entry, env=env))  # a new one if the login has another certificate
    return Http(entry.cluster.server, access=access, login=login.credentials, pool=pool, timeouts_s=timeouts_s)


def pool_for(entry: Entry, certificate: bytes, key: bytes, *, env: Mapping[str, str]) -> urllib3.PoolManager:
    """Return the connections to the entry's cluster, with this client certificate (PEM). Raises EnvironmentMissing if a
    certificate, a key or the proxy cannot be used.
    """
    cluster = entry.cluster
    over_tls, ca = cluster.server.startswith("https://"), cluster.certificate_authority_data
    options: dict[str, Any] = {"maxsize": POOL_SIZE}
    if cluster.tls_server_name and over_tls:
        options |= {"server_hostname": cluster.tls_server_name, "assert_hostname": cluster.tls_server_name}
    if cluster.insecure_skip_tls_verify:  # the user chose it: no warning for each request
        urllib3.disable_warnings(InsecureRequestWarning)
    try:
        if over_tls or ca or certificate:  # else not: reading the system's certificates takes 0.03 CPU-s
            verify = not cluster.insecure_skip_tls_verify
            options["ssl_context"] = tls_context(ca=ca, verify=verify, certificate=certificate, key=key)
        proxy = cluster.proxy_url or _environment_proxy(cluster.server, env)
        if not proxy:
            return urllib3.PoolManager(**options)
        user = urlsplit(proxy)
        pair = f"{unquote(user.username or '')}:{unquote(user.password or '')}"  # as Go's net/url decodes them
        login = urllib3.make_headers(proxy_basic_auth=pair) if user.username else {}
        return urllib3.ProxyManager(proxy, proxy_headers=login, **options)
    except (ValueError, HTTPError) as failed:
        raise unusable_context(entry.context, str(failed)) from None


def _environment_proxy(server: str, env: Mapping[str, str]) -> str | None:
    """Return the proxy of the environment, as kubectl does."""
    scheme = urlsplit(server).scheme
    proxy = env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY")
    if not proxy:
        return None
    from requests.utils import should_bypass_proxies  # slow to import, and most machines have no proxy

    never = ",".join(filter(None, (env.get("no_proxy") or env.get("NO_PROXY"), LOOPBACK)))
    return None if should_bypass_proxies(server, no_proxy=never) else proxy


class Http:
    """A client of one server, shared by threads: no retries, no redirects. It logs in when it is created, so that a
    failed login is reported before any request. `pool`: gives the connections for a client certificate and its key.
    `timeouts_s`: to connect, and between two parts of an answer.
    """

    def __init__(
        self,
        server: str,
        *,
        access: Access,
        login: Callable[[], Credentials],
        pool: Callable[[bytes, bytes], urllib3.PoolManager],
        timeouts_s: tuple[float, float],
    ) -> None:
        self._server = server.rstrip("/")
        self._access, self._login, self._pool, self._timeouts_s = access, login, pool, timeouts_s
        self.ahead_s = 0.0
        """Seconds by which the server's clock is ahead of this machine's, by the Date of its last answer."""
        credentials = login()
        pool(credentials.certificate, credentials.key)

    def request(
        self, method: str, path: str, *, body: Any, accept: str, read: ParseBody, deadline: Deadline = NEVER
    ) -> Reply | LostAnswer:
        """Send a request. Raises as `ClusterLogin.credentials`, as does `opened`."""
        headers = {"Accept": accept, "Accept-Encoding": "gzip", "Content-Type": JSON}
        content = None if body is None else json.dumps(body).encode()

        def exchange() -> Reply | LostAnswer:
            response = self._send(method, path, headers, content, self._timeouts_s[1])
            return self._read_reply(response, read, deadline)

        return self._by(deadline, exchange)

    def opened(self, path: str, *, read_timeout_s: float, deadline: Deadline = NEVER) -> Stream | Reply | LostAnswer:
        """Send a GET whose answer is read as it arrives. `deadline`: for the beginning of the answer."""

        def exchange() -> Stream | Reply | LostAnswer:
            response = self._send("GET", path, {"Accept": ANYTHING}, None, read_timeout_s)
            return Stream(response) if response.status == 200 else self._read_reply(response, read_object, deadline)

        return self._by(deadline, exchange)

    def _by(self, deadline: Deadline, exchange: Callable[[], T]) -> T | LostAnswer:
        """Return what `exchange` returns, or the loss. It is abandoned at the deadline: name resolution, TLS and the
        head of an answer have no limit of their own.
        """
        limit_s = deadline.left_s
        if not limit_s:
            return late_answer(self._access, host=self._server, sent=False)
        started = start(exchange)
        try:
            return (
                started.result() if started.ended(limit_s) else late_answer(self._access, host=self._server, sent=True)
            )
        except (HTTPError, OSError) as failed:
            return lost_answer(failed, self._access, host=self._server)

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, read_timeout_s: float
    ) -> urllib3.BaseHTTPResponse:
        """Send one request; its answer is not read yet."""
        credentials = self._login()
        login = {}
        if credentials.authorization and keeps_secrets(self._server):  # as client-go
            login = {"Authorization": credentials.authorization}
        response = self._pool(credentials.certificate, credentials.key).request(
            method,
            f"{self._server}{path}",
            body=body,
            headers={**headers, **login, "User-Agent": "xsft"},
            timeout=urllib3.Timeout(connect=self._timeouts_s[0], read=read_timeout_s),
            preload_content=False,
            redirect=False,
            retries=False,
        )
        if date := response.headers.get("Date"):
            self.ahead_s = clock.ahead_s(date)
        return response

    def _read_reply(
        self, response: urllib3.BaseHTTPResponse, read: ParseBody, deadline: Deadline
    ) -> Reply | LostAnswer:
        with ExitStack() as large:
            try:
                content = _whole_content(response, deadline, large=large)
            except UnusableAnswer as unusable:
                response.close()  # the rest is not read
                return unusable_answer(unusable, self._access, host=self._server)
            return reply_of(content, response, read=read, access=self._access, host=self._server)


def _whole_content(response: urllib3.BaseHTTPResponse, deadline: Deadline, *, large: ExitStack) -> bytes:
    """Return the body. `large`: its owner reads a large answer while no other is read. Raises UnusableAnswer if it is
    too large, or after the deadline, when no thread waits for it.
    """
    whole = BoundedBytes(MAX_BYTES)
    for part in response.stream(PART, decode_content=True):
        if whole.tell() <= LARGE_BYTES < whole.tell() + len(part):
            large.enter_context(_ONE_LARGE)
        if not deadline.left_s:
            raise UnusableAnswer("came too late")
        whole.write(part)
    return whole.getvalue()
