"""Detect tokens and private keys in a file's content by their format. Pure."""

from __future__ import annotations

import json
import re

from xsft.spec.secrets import looks_token

_END = rb"(?:\s|\\[rn])"
_HEADERS = rb"(?:[A-Za-z-]+: [^\n\\]*(?:\n|\\[rn])" + _END + rb"*)*"
_PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----" + _END + rb"+" + _HEADERS + rb"[A-Za-z0-9+/]{40}")
"""A PEM header and the first line of the key: code that only mentions the header does not match. source: RFC 7468, RFC
1421 (headers); `\n` is a line's end in JSON.
"""


def secret_in(content: bytes) -> str:
    """Return what kind of secret the content looks like, never its value; empty for none."""
    if _PEM.search(content):
        return "a service account key" if _is_service_account(content) else "a private key"
    return "what looks like a token" if looks_token(content.decode("latin-1")) else ""


def _is_service_account(content: bytes) -> bool:
    """Return whether this is a service account key. source: Google Cloud documentation, "Create and delete service
    account keys".
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("type") == "service_account"
