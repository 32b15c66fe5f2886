"""A connection pool to one cluster, by its context: server, trust, proxy and login.

No retries, no redirects, no proxy for loopback: what a lost request means is decided by `cluster.api`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import urllib3

from xsft.effects.cluster.config import Access
from xsft.effects.cluster.kubeconfig import Entry, entry_of, unusable
from xsft.effects.cluster.login import Credentials, Login
from xsft.effects.cluster.tls import context_of

POOL_SIZE = 16
"""Connections kept; a look reads up to eight logs beside its lists."""
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Never through a proxy, as kubectl does (golang.org/x/net http/httpproxy)."""


class Connection:
    """Threads share it. Logs in when it is made, so that a login that fails is told before anything is asked."""

    def __init__(self, entry: Entry, login: Login, *, env: Mapping[str, str]) -> None:
        self._entry, self._login, self._env = entry, login, env
        self._lock = threading.Lock()
        self._held: tuple[bytes | None, urllib3.PoolManager] | None = None
        self.server = str(entry.cluster["server"]).rstrip("/")
        self._pool(login.credentials())

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None, timeouts_s: tuple[float, float]
    ) -> urllib3.BaseHTTPResponse:
        """One request; its answer is not read yet. Raises urllib3's HTTPError, and as `Login.credentials`."""
        credentials = self._login.credentials()
        login = {"Authorization": credentials.authorization} if credentials.authorization else {}
        connect_s, read_s = timeouts_s
        return self._pool(credentials).request(
            method,
            f"{self.server}{path}",
            body=body,
            headers={**headers, **login, "User-Agent": "xsft"},
            timeout=urllib3.Timeout(connect=connect_s, read=read_s),
            preload_content=False,
            redirect=False,
            retries=False,
        )

    def _pool(self, credentials: Credentials) -> urllib3.PoolManager:
        """Made anew where the login has another certificate."""
        with self._lock:
            if self._held is None or self._held[0] != credentials.certificate:
                self._held = (credentials.certificate, self._made(credentials))
            return self._held[1]

    def _made(self, credentials: Credentials) -> urllib3.PoolManager:
        cluster = self._entry.cluster
        insecure = bool(cluster.get("insecure-skip-tls-verify"))
        if insecure:  # the user's own choice: a line of warning a request helps nobody
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        try:
            context = context_of(
                ca=self._entry.cluster_bytes("certificate-authority"),
                certificate=credentials.certificate,
                key=credentials.key,
                verify=not insecure,
            )
        except ValueError as failed:
            raise unusable(self._entry.context, str(failed)) from None
        name = cluster.get("tls-server-name")
        https = self.server.startswith("https://")
        named: dict[str, Any] = {"server_hostname": name, "assert_hostname": name} if name and https else {}
        options = {"ssl_context": context, "maxsize": POOL_SIZE, **named}
        proxy = self._proxy()
        if proxy is None:
            return urllib3.PoolManager(**options)
        try:
            return urllib3.ProxyManager(proxy, proxy_headers=_proxy_login(proxy), **options)
        except (ValueError, urllib3.exceptions.HTTPError) as failed:
            raise unusable(self._entry.context, f"its proxy cannot be used: {failed}") from None

    def _proxy(self) -> str | None:
        """The cluster's `proxy-url`, else the environment's, as kubectl."""
        if self._entry.cluster.get("proxy-url"):
            return str(self._entry.cluster["proxy-url"])
        scheme = urlsplit(self.server).scheme
        names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
        proxy = next((self._env[name] for name in names if self._env.get(name)), None)
        if proxy is None:
            return None
        from requests.utils import should_bypass_proxies  # heavy, and most machines have no proxy

        never = ",".join(filter(None, (self._env.get("no_proxy") or self._env.get("NO_PROXY"), LOOPBACK)))
        return None if should_bypass_proxies(self.server, no_proxy=never) else proxy


def connection_for(access: Access, *, env: Mapping[str, str]) -> Connection:
    """Raises EnvironmentMissing where the context cannot be used or its login program is missing, Unreachable where the
    login gives no credentials.
    """
    entry = entry_of(access.context, access.kubeconfig)
    return Connection(entry, Login(entry, access=access, env=env), env=env)


def _proxy_login(proxy: str) -> dict[str, str] | None:
    parts = urlsplit(proxy)
    if parts.username is None:
        return None
    return urllib3.make_headers(proxy_basic_auth=f"{parts.username}:{parts.password or ''}")
