"""HTTP sessions that send no login except the one they are given.

requests replaces the given Authorization header by the login of ~/.netrc for the host, or by its `default` login. So do
google-auth and Docker's SDK, which use requests. Proxies and certificates are the environment's. source: requests 2.34
sessions.py, `prepare_request`, `rebuild_auth`, `merge_environment_settings`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests

from xsft.base.network_words import is_loopback


class Session(requests.Session):
    """A requests session that reads no ~/.netrc. Can be mixed into others: `class Mine(Session, docker.APIClient)`."""

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        request.auth = request.auth or _keep_request
        return super().prepare_request(request)

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


def _keep_request(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request as it is. As an `auth` of requests' kind it prevents requests from looking for another
    login.
    """
    return request
