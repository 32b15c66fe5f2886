"""Does a file hold a token or a private key? By their shapes; code that speaks of them holds none. Pure."""

from __future__ import annotations

import json
import re

from xsft.spec.secrets import looks_token

_END = rb"(?:\s|\\[rn])"
_HEADERS = rb"(?:[A-Za-z-]+: [^\n\\]*(?:\n|\\[rn])" + _END + rb"*)*"
_PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----" + _END + rb"+" + _HEADERS + rb"[A-Za-z0-9+/]{40}")
"""With the first line of its body: code that mentions the header is no key. source: RFC 7468, RFC 1421 (headers);
`\\n` is a line's end in JSON.
"""


def secret_in(content: bytes) -> str:
    """What a file's content looks like, never the value; empty where it holds no secret."""
    if _PEM.search(content):
        return "a service account's key" if _is_service_account(content) else "a private key"
    return "something shaped like a token" if looks_token(content.decode("latin-1")) else ""


def _is_service_account(content: bytes) -> bool:
    """source: Google Cloud documentation, "Create and delete service account keys"."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("type") == "service_account"
