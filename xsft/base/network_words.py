"""Translate network errors of libraries into the usual short messages. Pure.

source: the texts of urllib3@2 exceptions.py, requests@2 adapters.py and CPython's ssl, seen in real failures.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_LIBRARY = re.compile(
    r"ConnectionPool\(|HTTPS?Connection\(|Max retries exceeded|'Connection aborted\.'|Connection broken:"
)
"""Parts of texts that come from a library and must be shortened."""
_MEANINGS = (
    (r"Tunnel connection failed: 407", "the proxy requires a login (407)"),
    (r"Tunnel connection failed: (?P<said>\d+ [A-Za-z ]+)", "the proxy refused the host ({said})"),
    (r"ProxyError|connect to proxy", "the proxy could not be reached"),
    (r"failed to resolve '(?P<said>[^']+)'", "the name {said} could not be resolved"),
    (r"failed to resolve|name or service not known|name resolution|no such host", "its name could not be resolved"),
    (r"certificate has expired", "its certificate has expired, or this machine's clock is wrong"),
    (r"certificate is not yet valid", "its certificate is not valid yet, or this machine's clock is wrong"),
    (r"(?P<said>self.signed certificate)", "it has a {said}, which this machine does not trust"),
    (r"certificate is not valid for|doesn't match", "its certificate is for another host"),
    (r"certificate[ _]verify[ _]failed", "this machine does not trust its certificate"),
    (r"wrong[ _]version[ _]number", "the server does not speak TLS on this port"),
    (r"\bssl\b|\btls\b|SSLError", "the TLS handshake failed"),
    (r"connection refused", "connection refused"),
    (r"timed out|timeout", "timed out"),
    (r"network is unreachable|no route to host", "no route to host"),
    (r"permission denied", "permission denied"),
    (r"no such file", "no such file"),
    (r"IncompleteRead", "incomplete answer"),
    (r"Invalid URL|Failed to parse|URL has an invalid label|label empty or too long", "it is not a valid address"),
)
"""Patterns and their meaning; the first match counts: an unknown proxy name is the proxy's failure."""

_NETWORK = re.compile(
    r"could not resolve|name resolution|no such host|connection (?:refused|reset|aborted)|network is unreachable|"
    r"no route to host|timed out|\btimeout\b|Max retries exceeded|NewConnectionError",
    re.IGNORECASE,
)


def blames_network(message: str) -> bool:
    """Return whether another program's message reports a network failure, which may be temporary."""
    return _NETWORK.search(message) is not None


def plain_words(message: str) -> str:
    """Return a library's text in plain words; any other text unchanged."""
    return meaning(message) if _LIBRARY.search(message) else message


def meaning(message: str) -> str:
    """Return the meaning of a text that is known to be a library's."""
    for pattern, words in _MEANINGS:
        if match := re.search(pattern, message, re.IGNORECASE):
            return words.format(**match.groupdict())
    return "connection closed or reset"


def keeps_secrets(url: str) -> bool:
    """Return whether a login may be sent to this address: over TLS, or to this machine."""
    address = urlsplit(url)
    return address.scheme == "https" or is_loopback(address.hostname or "")


def is_loopback(name: str) -> bool:
    """Return whether the host `name` (without port or brackets) is loopback."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
