"""HTTP sessions that send no login but the one they are handed.

requests puts the login that ~/.netrc has for a host, or the `default` one there, in the place of the Authorization
header that it was given, and so do google-auth and Docker's SDK, which stand on it. Proxies and certificates are the
environment's. source: requests 2.34 sessions.py, `prepare_request`, `rebuild_auth`, `merge_environment_settings`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests

from xsft.image.registry_names import is_loopback


class Session(requests.Session):
    """A session of requests that reads no ~/.netrc. Mixes into others: `class Mine(Session, docker.APIClient)`."""

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        request.auth = request.auth or _unchanged
        return super().prepare_request(request)

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """A redirect takes the login to no other host, and finds none for it."""
        if self.should_strip_auth(str(response.request.url), str(prepared_request.url)):
            prepared_request.headers.pop("Authorization", None)

    def merge_environment_settings(self, url: str, proxies: Any, *settings: Any) -> dict[str, Any]:
        """Loopback is reached without a proxy, as Go's programs do it: docker, kubectl."""
        host = urlsplit(url).hostname or ""
        if is_loopback(host):
            proxies = {**(proxies or {}), "no_proxy": host}
        return super().merge_environment_settings(url, proxies, *settings)


def _unchanged(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """An `auth` of requests' kind: with one given, no other is looked for."""
    return request
