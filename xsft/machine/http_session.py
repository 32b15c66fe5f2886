"""HTTP sessions that send no login except the one they are given; and sockets of this machine.

requests replaces the given Authorization header by the login of ~/.netrc for the host, or by its `default` login. So do
google-auth and Docker's SDK, which use requests. Proxies and certificates are the environment's. source: requests 2.34
sessions.py, `prepare_request`, `rebuild_auth`, `merge_environment_settings`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from xsft.base.errors import Refused, Unreachable
from xsft.base.network_words import is_loopback, keeps_secrets, meaning
from xsft.base.secrets import HIDDEN
from xsft.machine.bounded import UnusableAnswer, bounded
from xsft.machine.parallel import call_within

LOOPBACK = "127.0.0.1"


class Session(requests.Session):
    """A requests session that reads no ~/.netrc. Can be mixed into others: `class Mine(Session, docker.APIClient)`."""

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self.mount("https://", BoundedAdapter())
        self.mount("http://", BoundedAdapter())

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        # an `auth` of requests' kind keeps requests from looking for another login
        request.auth = request.auth or (lambda prepared: prepared)
        return super().prepare_request(request)

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        """Send the request; over http:// without a login, but to this machine."""
        if not keeps_secrets(str(request.url)):
            request.headers.pop("Authorization", None)
        return super().send(request, **settings)

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Remove the login on a redirect to another host, and add none for that host."""
        if self.should_strip_auth(str(response.request.url), str(prepared_request.url)):
            prepared_request.headers.pop("Authorization", None)

    def merge_environment_settings(self, url: str, proxies: Any, *settings: Any) -> dict[str, Any]:
        """Use no proxy for loopback, as Go programs do: docker, kubectl."""
        host = urlsplit(url).hostname or ""
        if is_loopback(host):
            proxies = {**(proxies or {}), "no_proxy": host}
        return super().merge_environment_settings(url, proxies, *settings)


class TokenSession(Session):
    """A session that posts no refresh token over http://, but to this machine."""

    def send(self, request: requests.PreparedRequest, **settings: Any) -> requests.Response:
        url = str(request.url)
        if request.method == "POST" and not keeps_secrets(url):
            raise requests.RequestException(f"a login is not sent over http:// to {urlsplit(url).hostname}")
        return super().send(request, **settings)


class BoundedAdapter(HTTPAdapter):
    """The connections of a session: an answer that the caller does not read in parts has at most MAX_BYTES."""

    def send(self, *settings: Any, **more: Any) -> requests.Response:
        response = super().send(*settings, **more)
        if not more.get("stream"):
            response.raw.stream = partial(_bounded_stream, response.raw)
        return response


def _bounded_stream(raw: Any, *settings: Any, **more: Any) -> Iterator[bytes]:
    """Yield the parts of a urllib3 answer. Raises RequestException if it is too large."""
    try:
        yield from bounded(type(raw).stream(raw, *settings, **more))
    except UnusableAnswer as unusable:
        raw.close()  # else requests keeps the connection
        raise requests.RequestException(f"the answer {unusable}") from None


NOTICE_S = 10.0
"""Seconds in which a notice must be answered, with name resolution and the whole answer."""


def post_notice(address: str, document: str, *, timeout_s: float = NOTICE_S) -> None:
    """Post the JSON document; a redirect is not followed. Raises Unreachable, without any part of the address."""
    headers = {"Content-Type": "application/json"}
    send = partial(Session().post, data=document.encode(), headers=headers, allow_redirects=False, timeout=timeout_s)
    try:
        response = call_within(timeout_s, partial(send, address))
    except (OSError, ValueError) as failed:  # requests' own errors are OSErrors
        host = urlsplit(address).hostname or address
        raise Unreachable(meaning(str(failed)).replace(host, HIDDEN)) from None
    if not HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES:
        raise Unreachable(f"the server answered {response.status_code}")


def require_listener(path: str, *, timeout_s: float) -> None:
    """Raise OSError if no process listens on the Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(timeout_s)
        probe.connect(path)


def free_port(port: int | None = None) -> int:
    """Return `port`, or one that the system chooses. Raises Refused, port-in-use, if `port` cannot be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port or 0))
        except OSError as problem:
            raise Refused(
                f"port {port} of {LOOPBACK} cannot be used: {problem.strerror}",
                fix="Choose another with --port, or omit --port to use a free one.",
                id="port-in-use",
            ) from problem
        return int(probe.getsockname()[1])
