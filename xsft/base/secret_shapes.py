"""Shapes of secrets: the tokens of services, logins in URLs and headers, keys in PEM. Pure.

Most are gitleaks' (xsft/base/secret_rules.toml). The ones here are open-ended: a token that is longer than the
service's documentation says is a token too.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

RULES = Path(__file__).with_name("secret_rules.toml")


class Shape(NamedTuple):
    words: tuple[str, ...]
    """Words in lower case; a text without any of them has no such secret. Searching for words is cheap."""
    pattern: str
    """Its first group is the secret; without a group, all of it is."""
    entropy: float = 0.0
    """Bits a character; a text with less is not a secret."""


Shapes = tuple[tuple[str, Shape], ...]
"""Each word with its shape: one pass over a flat tuple is what a text without secrets costs."""

REFERENCE = r"(?:\$\(\w+\)|\$\{?\w+(?::?[-?+=])?\}?|\{+ ?[\w.]* ?\}+|<[^>]*>|\*+|[xX]{3,}|…)"
"""Placeholders for secrets in examples, shells and manifests, and the text of a redaction."""

_PEM = r"[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
KEY_MARK = re.compile(rf"-----(BEGIN|END){_PEM}")
KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
"""Pattern of a part of a private key, between its marks."""
_GAP = r"(?:\s|\\+[nrt]){1,20}"

OWN = (
    Shape(("hf_",), r"hf_(?:oauth_|jwt_)[\w.-]{16,}|hf_[A-Za-z0-9]{20,}"),
    Shape(("ghp_", "gho_", "ghs_", "ghu_", "ghr_"), r"gh[opsur]_[A-Za-z0-9]{20,}"),
    Shape(("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}"),
    Shape(("glpat-",), r"glpat-[\w-]{16,}"),
    Shape(("ya29.",), r"ya29\.[\w.-]{10,}"),  # Google: access tokens, refresh tokens, API keys, OAuth clients
    Shape(("1//0",), r"(?<!\w)1//0[\w-]{20,}"),
    Shape(("aiza",), r"AIza[\w-]{30,}"),
    Shape(("gocspx-",), r"GOCSPX-[\w-]{20,}"),
    Shape(("akia", "asia"), r"A[KS]IA[A-Z0-9]{12,}"),
    Shape(("sk-",), r"(?<![A-Za-z0-9])sk-(?:(?:ant|proj|svcacct|admin|or)-[\w-]{16,}|[A-Za-z0-9]{20,})"),
    Shape(("xox",), r"(?<![A-Za-z0-9])xox[abceoprs]-[A-Za-z0-9-]{10,}"),
    Shape(("dckr_",), r"dckr_(?:pat|oat)_[\w-]{16,}"),
    Shape(("npm_",), r"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{30,}"),
    Shape(("pypi-",), r"(?<![\w-])pypi-(?:AgE[\w-]{16,}|[A-Za-z0-9_]{32,})"),
    # RFC 7519 (JWT: two or three parts) and 7516 (JWE: five); eyJ is base64 of `{"`
    Shape(("eyj",), r"(?<![\w-])eyJ[\w-]{10,}(?:\.eyJ[\w-]{10,}(?:\.[\w-]*)?|\.[\w-]*(?:\.[\w-]{10,}){3})"),
    # Groq, xAI, Cerebras, Replicate, Stripe's webhooks; NVIDIA, W&B, Together, Pinecone, Supabase; HashiCorp Vault
    Shape(("gsk_", "xai-", "csk-", "r8_", "whsec_"), r"(?<![A-Za-z0-9])(?:gsk_|xai-|csk-|r8_|whsec_)[A-Za-z0-9]{20,}"),
    Shape(
        ("nvapi-", "wandb_v1_", "tgp_v1_", "pcsk_", "sb_secret_"),
        r"(?<![A-Za-z0-9])(?:nvapi-|wandb_v1_|tgp_v1_|pcsk_|sb_secret_)[\w-]{20,}",
    ),
    Shape(("hvs.", "hvb.", "hvr."), r"(?<![\w.-])hv[sbr]\.[\w-]{20,}"),
)

ENVELOPES = (
    Shape(
        ("private key",),
        rf"-----BEGIN{_PEM}(?:(?:(?!-----)(?:[\w+/=\s:,.-]|\\+[nr/]))*-----END{_PEM}"
        r"|(?:(?:\s|\\+[nr])*[A-Za-z0-9+/=]{16,})*)",
    ),
    Shape(("bearer",), r"(?i:\bbearer)\s+([\w.~+/=-]{16,})"),
    Shape(("basic",), r"\b[Bb]asic\s+([A-Za-z0-9+/]{8,}={1,2}|[A-Za-z0-9+/]{24,})"),
    Shape(
        ("authorization",),
        rf"(?i:authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|token|apikey))\s+(?!{REFERENCE})([^\s\"'\\,;…]{{4,}})",
    ),
    Shape(
        (":/",),  # a path library makes `https:/` of `https://`
        rf"(?<=:/)/?([^\s/@:'\"\\<>\[]{{0,256}}:(?![0-9]*/|{REFERENCE}@)"
        r"(?:[^\s/'\"\\]{1,512}|[^\s'\"\\]{1,512}?))@(?!sha(?:256|512):)",
    ),
    Shape(  # without a scheme, as proxies are written; a member of IAM, `serviceAccount:NAME@PROJECT`, is no login
        ("@",),
        r"(?<![\w.+/@:-])(?!(?i:user|group|serviceaccount|domain|mailto|e?-?mail|from|to|cc|author|owner|account):)"
        rf"[\w.%+-]{{1,64}}:(?!{REFERENCE}@)([^\s/@:'\"\\,;()\[\]{{}}<>=…]{{3,256}})@(?!sha(?:256|512):)\w[\w-]{{0,62}}",
    ),
    Shape(("http:/", "https:/"), r"(?:(?<=http:/)|(?<=https:/))/?(?!git@)([^\s/@:'\"\\<>\[{$*…]{1,512})@"),
    Shape(
        ("sig=", "signature=", "token=", "key=", "credential=", "password=", "passwd=", "secret="),
        r"(?i:(?:[?&]|\\u0026)(?:x-(?:goog|amz)-(?:signature|credential|security-token)|sig|signature|password|passwd"
        rf"|(?:(?:access|auth|id|refresh)[_-]?)?token|api[_-]?key|(?:client[_-]?)?secret)=)(?!{REFERENCE})"
        r"([^\s&'\"#\\…]{5,}[^\s&'\"#\\…:.,;)])",
    ),
    Shape(
        ("password",),
        rf"\b(?:machine{_GAP}[^\s\\]+|default)(?:{_GAP}(?:login|account){_GAP}[^\s\\]+){{0,2}}{_GAP}password{_GAP}"
        rf"(?!{REFERENCE})([^\s\"'\\]+)",
    ),
)
"""A secret of any shape, recognised by its context: PEM, HTTP headers, a URL's login, a signed URL's query, netrc.
Lengths are bounded in patterns that can match in many ways, so that long texts are rejected quickly.
"""

_TAIL = re.compile(r"[\w=~-]*")
"""Pattern of further characters of a token whose rule names a length."""


class SecretSpan(NamedTuple):
    start: int
    end: int


@cache
def token_shapes() -> Shapes:
    """Return the shapes of secrets that are recognised anywhere in a text."""
    rules = tomllib.loads(RULES.read_text(encoding="utf-8")).values()
    return _by_word((*OWN, *(Shape(tuple(r["words"]), r["pattern"], r.get("entropy", 0.0)) for r in rules)))


@cache
def every_shape() -> Shapes:
    return (*_by_word(ENVELOPES), *token_shapes())


def find_secrets(text: str, shapes: Shapes) -> Iterator[SecretSpan]:
    """Yield the spans of secrets of those shapes in the text; they may overlap."""
    small = text.lower()
    near = [shape for word, shape in shapes if word in small]
    for shape in dict.fromkeys(near):
        yield from _places(text, shape)


def _by_word(shapes: tuple[Shape, ...]) -> Shapes:
    return tuple((word, shape) for shape in shapes for word in shape.words)


def _places(text: str, shape: Shape) -> Iterator[SecretSpan]:
    known = 0
    for match in _compile_pattern(shape.pattern).finditer(text):
        start, end = match.span(1 if match.lastindex else 0)
        if start >= known and (not shape.entropy or _entropy(text[start:end]) >= shape.entropy):
            known = end if shape in ENVELOPES else _end_of_token(text, end)
            yield SecretSpan(start, known)


def _end_of_token(text: str, end: int) -> int:
    tail = _TAIL.match(text, end)
    return tail.end() if tail else end


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _entropy(text: str) -> float:
    """Return Shannon's entropy, in bits a character, as gitleaks counts it."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)
