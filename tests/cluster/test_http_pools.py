"""The options of requests: what urllib3 gets of a kubeconfig and of the environment. Nothing is sent."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.fakes.kubeapi import CONTEXT, write_kubeconfig
from xsft.base.errors import EnvironmentMissing
from xsft.cluster.access import Access, ClusterEntry, Entry, UserEntry
from xsft.cluster.http import POOL_SIZE, ClusterLogin, Http, http_for, pool_for

ACCESS = Access(context="lab", kubeconfig=(Path("config"),), gke=False)


PLAIN, SECURE, PROXY = "http://lab.example", "https://lab.example", "http://proxy.example:3128"


def http(entry: Entry, pool: Callable[[bytes, bytes], urllib3.PoolManager]) -> Http:
    login = ClusterLogin(entry, gke=False, env={}).credentials
    return Http(entry.cluster.server, access=ACCESS, login=login, pool=pool, timeouts_s=(2.0, 30.0))


def pool(env: dict[str, str] | None = None, **cluster: Any) -> urllib3.PoolManager:
    entry = Entry(context="lab", cluster=ClusterEntry(**cluster), user=UserEntry())
    return pool_for(entry, b"", b"", env=env or {})


def proxy(env: dict[str, str] | None = None, **cluster: Any) -> str | None:
    proxy_url = pool(env, **cluster).proxy
    return proxy_url.url if proxy_url else None


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def test_each_request_is_sent_once_with_its_login() -> None:
    requests_sent: list[Any] = []
    certificates: list[tuple[bytes, ...]] = []

    class Pool:
        def request(self, *line: str, **options: Any) -> urllib3.HTTPResponse:
            requests_sent.append((line, options))
            return urllib3.HTTPResponse(BytesIO(b"{}"), status=200, preload_content=False)

    def pool(*certificate: bytes) -> Any:
        certificates.append(certificate)
        return Pool()

    pair = {"client_certificate_data": b"c", "client_key_data": b"k"}
    for user, login in (
        (UserEntry(token="t", **pair), "Bearer t"),
        (UserEntry(**pair), None),
    ):
        entry = Entry(context="lab", cluster=ClusterEntry(server=f"{SECURE}/"), user=user)
        client = http(entry, pool)
        assert (certificates, requests_sent) == ([(b"c", b"k")], [])  # before any request
        client.request("PUT", "/a", body=[1], accept="x", read=bytes)
        line, options = requests_sent.pop()
        assert (line, requests_sent) == (("PUT", f"{SECURE}/a"), [])
        assert certificates == [(b"c", b"k")] * 2
        certificates.clear()
        timeout = options.pop("timeout")
        assert (timeout.connect_timeout, timeout.read_timeout) == (2.0, 30.0)
        content = {"Accept-Encoding": "gzip", "Content-Type": "application/json"}
        headers = {"Accept": "x", "User-Agent": "xsft", **content, **({"Authorization": login} if login else {})}
        expected = {"body": b"[1]", "headers": headers, "preload_content": False, "redirect": False, "retries": False}
        assert options == expected


def test_a_pool_keeps_connections_and_reads_no_certificates_for_http() -> None:
    options = pool(server=PLAIN).connection_pool_kw
    assert (options["maxsize"], options.get("ssl_context")) == (POOL_SIZE, None)
    assert "server_hostname" not in pool(server=PLAIN, tls_server_name="other").connection_pool_kw


def test_a_login_with_another_certificate_gets_another_pool(tmp_path: Path) -> None:
    access = Access(
        context=CONTEXT, kubeconfig=(write_kubeconfig(tmp_path / "config", server=SECURE, token="t"),), gke=False
    )
    client = http_for(access, env={}, timeouts_s=(2.0, 30.0))
    first = client._pool(b"one", b"")
    assert client._pool(b"one", b"") is first
    assert client._pool(b"two", b"") is not first


def test_tls_server_name_is_sent_and_expected() -> None:
    options = pool(server=SECURE, tls_server_name="other").connection_pool_kw
    assert (options["server_hostname"], options["assert_hostname"]) == ("other", "other")
    assert "server_hostname" not in pool(server=SECURE).connection_pool_kw


@pytest.mark.parametrize(("skip", "mode"), [(False, ssl.CERT_REQUIRED), (True, ssl.CERT_NONE)])
def test_certificates_are_verified_unless_the_kubeconfig_disables_it(skip: bool, mode: ssl.VerifyMode) -> None:
    context = pool(server=SECURE, insecure_skip_tls_verify=skip).connection_pool_kw["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (mode, not skip)


@pytest.mark.parametrize("server", [SECURE, PLAIN])
def test_an_invalid_certificate_is_reported(server: str) -> None:
    words = "context lab of the kubeconfig cannot be used: its certificate or key"
    user = UserEntry(client_certificate_data=b"none", client_key_data=b"none")
    entry = Entry(context="lab", cluster=ClusterEntry(server=server), user=user)
    with pytest.raises(EnvironmentMissing, match=words):
        http(entry, partial(pool_for, entry, env={}))
    with pytest.raises(EnvironmentMissing, match=words):
        pool(server=server, certificate_authority_data=b"no certificate")


@pytest.mark.parametrize(
    ("server", "env", "expected"),
    [
        (SECURE, {"https_proxy": PROXY}, PROXY),
        (SECURE, {"HTTPS_PROXY": PROXY}, PROXY),
        (PLAIN, {"http_proxy": PROXY}, PROXY),
        (PLAIN, {"HTTP_PROXY": PROXY}, PROXY),
        (PLAIN, {"HTTPS_PROXY": PROXY}, None),
        (SECURE, {"https_proxy": PROXY, "HTTPS_PROXY": "http://other:1"}, PROXY),
        (SECURE, {"HTTPS_PROXY": PROXY, "no_proxy": "lab.example"}, None),
        (SECURE, {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example"}, None),
        (SECURE, {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.example"}, PROXY),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.example"}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None),
        (SECURE, {}, None),
    ],
)
def test_the_proxy_comes_from_the_environment_as_in_kubectl(
    server: str, env: dict[str, str], expected: str | None
) -> None:
    assert proxy(env, server=server) == expected


def test_the_proxy_of_the_cluster_wins_and_gets_its_login() -> None:
    env = {"HTTPS_PROXY": "http://other:1", "NO_PROXY": "lab.example"}
    assert proxy(env, server=SECURE, proxy_url=PROXY) == PROXY
    assert pool(server=SECURE, proxy_url=PROXY).connection_pool_kw["maxsize"] == POOL_SIZE
    for login, pair in (("me:secret", "me:secret"), ("me", "me:"), ("us%40er:p%3Aw", "us@er:p:w")):
        proxy_of_pool = pool(server=SECURE, proxy_url=f"http://{login}@proxy.example:3128")
        assert isinstance(proxy_of_pool, urllib3.ProxyManager)
        assert proxy_of_pool.proxy_headers == {"proxy-authorization": basic(pair)}
    without = pool(server=SECURE, proxy_url=PROXY)
    assert isinstance(without, urllib3.ProxyManager)
    assert without.proxy_headers == {}
