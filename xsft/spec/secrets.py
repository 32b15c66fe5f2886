"""Which texts must never be echoed: tokens, and whatever stands under a key that names one. Pure.

The shapes are public ones: Hugging Face (`hf_`), GitHub (`ghp_` and its kin, `github_pat_`), Google OAuth (`ya29.`) and
API keys (`AIza`), AWS (`AKIA`, `ASIA`), HTTP bearer headers, and PEM private keys.
"""

from __future__ import annotations

import re
from dataclasses import replace

from xsft.problems import Problem

HIDDEN = "…"

_TOKEN = re.compile(
    r"hf_[A-Za-z0-9]{20,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}"
    r"|ya29\.[A-Za-z0-9_.\-]{10,}"
    r"|AIza[A-Za-z0-9_\-]{30,}"
    r"|A[KS]IA[A-Z0-9]{12,}"
    r"|[Bb]earer\s+[A-Za-z0-9_.~+/=\-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_SECRET_NAME = re.compile(
    r"(?:^|[_.\-])(?:token|secrets?|password|passwd|credentials?|api_?keys?)(?:$|[_.\-])", re.IGNORECASE
)


def looks_secret(text: str) -> bool:
    """True when `text` holds something shaped like a token, wherever in it."""
    return _TOKEN.search(text) is not None


def names_secret(key_path: str) -> bool:
    """True when a value under this key path is likely a secret, e.g. `env.HF_TOKEN` (but not `model.tokenizer`)."""
    return _SECRET_NAME.search(key_path) is not None


def redact(text: str) -> str:
    """The text with every token-shaped part replaced by `…`."""
    return _TOKEN.sub(HIDDEN, text)


def redacted(p: Problem) -> Problem:
    """Messages quote what was given: a token in it goes no further, whichever check quotes it."""
    return replace(p, message=redact(p.message), fix=redact(p.fix), where=redact(p.where), file=redact(p.file))
