"""Detect texts that must never be printed: those shaped like a secret, and values under a name that means one. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from xsft.problems import Problem
from xsft.spec.shapes import MIN_LENGTH, every_shape, find_secrets, token_shapes

HIDDEN = "…"

_SECRET_NAME = re.compile(
    r"(?:^|[_.\-])(?:token|secrets?|password|passwd|credentials?|api_?keys?)(?:$|[_.\-])", re.IGNORECASE
)
_SECRET_PART = re.compile(
    r"KEY|PAT|AUTH|DSN|PWD"
    r"|.*(?:SECRETS?|TOKEN|PASS|PASSWD|PASSWORD|PASSPHRASE|(?:API|PRIVATE|SECRET)KEY|CREDENTIALS?|CREDS)"
)
_REFERENCE_NAME = re.compile(r"(?:.*[_.\-:])?(?:PATH|FILE|DIR|NAME)")
"""Pattern of variables that hold the path of a secret: HF_TOKEN_PATH."""
_SPECIAL_TOKENS = frozenset({"pad_token", "bos_token", "eos_token", "unk_token"})
_HARMLESS = re.compile(
    r"|[-+]?[0-9]*\.?[0-9]+|true|false|yes|no|on|off|none|null"  # switches and numbers
    r"|(?:~|\.{1,2})?/[^\s+=]*"  # paths
    r"|[a-z][a-z0-9+.\-]*://[^\s@]*|projects/[^\s/]+/secrets/\S*"  # addresses
    r"|\$\(\w+\)|\$\{?\w+\}?|<[^>]*>",  # references, as Kubernetes and shells write them
    re.IGNORECASE,
)


def looks_secret(text: str) -> bool:
    """Return whether `text` holds something shaped like a secret, anywhere in it."""
    return len(text) >= MIN_LENGTH and next(find_secrets(text, every_shape()), None) is not None


def looks_token(text: str) -> bool:
    """Return whether `text` holds a token of a known form: source code has URLs and headers that are examples."""
    return next(find_secrets(text, token_shapes()), None) is not None


def names_secret(key_path: str) -> bool:
    """Return whether a value under this key path is likely a secret, e.g. `env.HF_TOKEN` (but not
    `model.tokenizer`).
    """
    head, _, variable = key_path.partition(".")
    if head == "env" and variable:
        return names_secret_variable(variable)
    return _SECRET_NAME.search(key_path) is not None and not _is_no_secret(key_path.rpartition(".")[2])


def names_secret_variable(name: str) -> bool:
    """Return whether an environment variable of this name is likely a secret: GITHUB_PAT, PGPASS, MYSECRET."""
    upper = name.upper()
    named = any(_SECRET_PART.fullmatch(part) for part in re.split(r"[_.:\-]", upper))
    return named and _REFERENCE_NAME.fullmatch(upper) is None and not _is_no_secret(upper.removeprefix("M_").lower())


def _is_no_secret(key: str) -> bool:
    """Return whether it is a key of the trainer or its tokenizer that only sounds like a secret.

    MaxText reads its keys from variables named `M_<KEY>`; source: maxtext@0.2.5 configs/pyconfig.py.
    """
    from xsft.catalog.releases import is_known

    return key in _SPECIAL_TOKENS or (is_known(key) and key != "hf_access_token")


def is_harmless(value: str) -> bool:
    """Return whether a value reveals nothing under any name: switches, numbers, paths, addresses and references."""
    return _HARMLESS.fullmatch(value) is not None and not looks_secret(value)


def redact(text: str) -> str:
    """Return the text with every part that is shaped like a secret replaced by `…`."""
    if len(text) < MIN_LENGTH:
        return text
    kept, after = [], 0
    for start, end in sorted(find_secrets(text, every_shape())):
        if start >= after:
            kept.append(text[after:start])
        after = max(after, end)
    return HIDDEN.join((*kept, text[after:]))


def redact_problem(p: Problem) -> Problem:
    """Return the problem without tokens: messages quote what was given, whichever check quotes it."""
    return replace(p, message=redact(p.message), fix=redact(p.fix), where=redact(p.where), file=redact(p.file))
