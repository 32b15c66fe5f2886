"""Does a file hold a token or a private key? By their shapes; code that speaks of them holds none. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from xsft.spec.secrets import looks_secret

_MARKS = (
    *(b"hf_", b"ghp_", b"gho_", b"ghs_", b"ghu_", b"ghr_", b"github_pat_"),
    *(b"ya29.", b"AIza", b"AKIA", b"ASIA"),
)
"""A token that `looks_secret` knows holds one of them: it need see no more than the bytes around."""
BEFORE, AFTER = 40, 120
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
    around = (content[max(0, at - BEFORE) : at + AFTER] for mark in _MARKS for at in _places(content, mark))
    found = any(looks_secret(piece.decode("latin-1")) for piece in around)
    return "something shaped like a token" if found else ""


def _is_service_account(content: bytes) -> bool:
    """source: Google Cloud documentation, "Create and delete service account keys"."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("type") == "service_account"


def _places(content: bytes, mark: bytes) -> Iterator[int]:
    at = content.find(mark)
    while at >= 0:
        yield at
        at = content.find(mark, at + 1)
