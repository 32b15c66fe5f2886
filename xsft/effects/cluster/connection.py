"""A connection pool to one cluster, by its context: server, trust, proxy and login. No retries, no redirects, no proxy
for loopback: `cluster.api` decides what a lost request means.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import urllib3

from xsft.effects.cluster.config import Access
from xsft.effects.cluster.kubeconfig import Entry, entry_of, unusable
from xsft.effects.cluster.login import ClusterLogin, Credentials
from xsft.effects.cluster.tls import context_of

POOL_SIZE = 16
"""Connections kept open; one status read fetches up to eight logs in addition to its lists."""
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Addresses never reached through a proxy, as in kubectl (golang.org/x/net http/httpproxy)."""


class Connection:
    """A connection pool shared by threads. It logs in when it is created, so that a failed login is reported before any
    request.
    """

    def __init__(self, entry: Entry, login: ClusterLogin, *, env: Mapping[str, str]) -> None:
        self._entry, self._login, self._env = entry, login, env
        self._lock = threading.Lock()
        self._held: tuple[bytes | None, urllib3.PoolManager] | None = None
        self.server = str(entry.cluster["server"]).rstrip("/")
        self._pool(login.credentials())

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None, timeouts_s: tuple[float, float]
    ) -> urllib3.BaseHTTPResponse:
        """Send one request; its answer is not read yet. Raises urllib3's HTTPError, and as
        `ClusterLogin.credentials`.
        """
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
        """Return the pool; a new one if the login has another certificate."""
        with self._lock:
            if self._held is None or self._held[0] != credentials.certificate:
                self._held = (credentials.certificate, self._made(credentials))
            return self._held[1]

    def _made(self, credentials: Credentials) -> urllib3.PoolManager:
        cluster = self._entry.cluster
        insecure = bool(cluster.get("insecure-skip-tls-verify"))
        if insecure:  # the user chose it: no warning for each request
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        name = cluster.get("tls-server-name")
        https = self.server.startswith("https://")
        named: dict[str, Any] = {"server_hostname": name, "assert_hostname": name} if name and https else {}
        options = {"ssl_context": self._tls(credentials, verify=not insecure), "maxsize": POOL_SIZE, **named}
        proxy = self._proxy()
        if proxy is None:
            return urllib3.PoolManager(**options)
        try:
            return urllib3.ProxyManager(proxy, proxy_headers=_proxy_login(proxy), **options)
        except (ValueError, urllib3.exceptions.HTTPError) as failed:
            raise unusable(self._entry.context, f"its proxy is not usable: {failed}") from None

    def _tls(self, credentials: Credentials, *, verify: bool) -> ssl.SSLContext | None:
        """Return the TLS context; None for a plain HTTP server, since reading the system's certificates takes 0.03
        CPU-s.
        """
        ca = self._entry.cluster_bytes("certificate-authority")
        if not (self.server.startswith("https://") or ca or credentials.certificate):
            return None
        try:
            return context_of(ca=ca, certificate=credentials.certificate, key=credentials.key, verify=verify)
        except ValueError as failed:
            raise unusable(self._entry.context, str(failed)) from None

    def _proxy(self) -> str | None:
        """Return the cluster's `proxy-url`, else the environment's proxy, as kubectl does."""
        if self._entry.cluster.get("proxy-url"):
            return str(self._entry.cluster["proxy-url"])
        scheme = urlsplit(self.server).scheme
        names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
        proxy = next((self._env[name] for name in names if self._env.get(name)), None)
        if proxy is None:
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


def _proxy_login(proxy: str) -> dict[str, str] | None:
    parts = urlsplit(proxy)
    if parts.username is None:
        return None
    return urllib3.make_headers(proxy_basic_auth=f"{parts.username}:{parts.password or ''}")
