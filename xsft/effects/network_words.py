"""What a failed connection means, without the names of the libraries that met it. Pure.

source: the texts of urllib3@2 exceptions.py, requests@2 adapters.py and CPython's ssl, met by asking.
"""

from __future__ import annotations

import re

_LIBRARY = re.compile(
    r"ConnectionPool\(|HTTPS?Connection\(|Max retries exceeded|'Connection aborted\.'|Connection broken:"
)
"""A text that holds one of them is a library's, and says too much."""
_RESOLVED = re.compile(r"Failed to resolve '([^']+)'")
_MEANINGS = (
    (r"ProxyError|connect to proxy", "the proxy does not answer"),
    (r"failed to resolve|name or service not known|name resolution|no such host", "its name is not known here"),
    (r"certificate verify failed", "its certificate is not one that this machine trusts"),
    (r"\bssl\b|\btls\b|SSLError", "no TLS connection comes about"),
    (r"connection refused", "nobody listens there"),
    (r"timed out|timeout", "it does not answer in time"),
    (r"network is unreachable|no route to host", "no network leads there"),
    (r"permission denied", "it may not be used (permission denied)"),
    (r"no such file", "it is not there"),
)
"""The first that is found: a proxy's name that is not known is the proxy's."""


def plain(said: str) -> str:
    """A library's text in words of ours; any other text as it is."""
    if not _LIBRARY.search(said):
        return said
    found = next((words for pattern, words in _MEANINGS if re.search(pattern, said, re.IGNORECASE)), None)
    name = _RESOLVED.search(said)
    if name and found == "its name is not known here":
        return f"the name {name[1]} is not known here"
    return found or "the connection broke off"
