"""Detect and hide texts that must never be printed: those shaped like a secret, values under a name that means one, and
the secrets that this process itself uses.

Most shapes are gitleaks' (xsft/base/secret_rules.toml). The ones here are open-ended: a token that is longer than the
service's documentation says is a token too.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from xsft.base.terminal_text import without_sequences

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
    # each word of the text once: a document of a thousand runs repeats its own, and 180 shapes are looked for in it
    small = " ".join(set(text.lower().split()))
    for shape in dict.fromkeys([shape for word, shape in shapes if word in small]):
        yield from _places(text, shape)


def _by_word(shapes: tuple[Shape, ...]) -> Shapes:
    return tuple((word.split()[0], shape) for shape in shapes for word in shape.words)


def _places(text: str, shape: Shape) -> Iterator[SecretSpan]:
    hidden_to = 0
    for match in _compile_pattern(shape.pattern).finditer(text):
        start, end = match.span(1 if match.lastindex else 0)
        if start >= hidden_to and (not shape.entropy or _entropy(text[start:end]) >= shape.entropy):
            hidden_to = end
            if shape not in ENVELOPES and (tail := _TAIL.match(text, end)):
                hidden_to = tail.end()
            yield SecretSpan(start, hidden_to)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _entropy(text: str) -> float:
    """Return Shannon's entropy, in bits a character, as gitleaks counts it."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)


HIDDEN = "…"

_COMPOUND = (
    r"(?:SECRET|TOKEN|PASSWD|PASSWORD|PASSPHRASE|CREDENTIAL|CRED|BEARER|COOKIE"
    r"|(?:API|PRIVATE|SECRET|ACCESS|ACCOUNT|SHARED|SIGNING|ENCRYPTION)[_.\-]?KEY)"
)
"""Pattern of the end of a word that means a secret: MYTOKEN, clientSecret, AccountKey."""
_VARIABLE_PART = re.compile(
    rf"(?:KEY|PAT|O?AUTH|AUTHORIZATION|DSN|PWD?|SIG|SIGNATURE|JWT|NETRC|.*(?:PASS|{_COMPOUND}))\d*S?\d*", re.IGNORECASE
)
"""Pattern of a part of a variable's name, which may end in a plural or a number: API_KEYS, TOKEN1."""
_NAME_END = re.compile(
    rf"(?:{_COMPOUND}S?(?<!TOKENS)|(?:^|[_.\-])(?:AUTH|AUTHORIZATION|PWD?|SIG|JWT)|[_.\-]SIGNATURE)\d*$", re.IGNORECASE
)
"""Pattern of the end of any other name: source code and logs have many keys, patterns and numbers of tokens."""
_VAGUE_NAME = re.compile(r"-*(?:keys?|secrets?)|.*pull[_\-]?secret", re.IGNORECASE)
"""Names of references in workloads and manifests: `secrets: {hf_token: {secret: NAME, key: KEY}}`."""
_TEXT_TOKEN = re.compile(
    r"(?:.*_)?(?:pad|bos|eos|unk|cls|sep|mask|special|image|audio|video|start|end|first|last|next|per)_tokens?"
)
"""Pattern of names of tokens of text."""
_REFERENCE_NAME = re.compile(r"(?:.*[_.\-:])?(?:PATH|FILE|DIR|NAME)", re.IGNORECASE)
"""Pattern of the name of a reference to a secret: HF_TOKEN_PATH, SECRET_NAME."""
_READABLE = re.compile(r"[a-z]{1,15}(?:[_./\-](?:[a-z]{1,15}|[0-9]{1,3}))*")
"""Pattern of a file's or an object's name in words: secrets/hub.token, hf-token-2."""
_HARMLESS = re.compile(
    r"|[-+]?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?|true|false|yes|no|on|off|none|null"  # switches and numbers
    r"|(?:~|\.{1,2})?/[^\s+=]*"  # paths
    r"|[a-z][a-z0-9+.\-]*://[^\s@]*|projects/[^\s/]+/secrets/\S*"  # addresses
    rf"|{REFERENCE}|%s|\[/?[A-Z_]+\]|VALUE|TOKEN|KEY",  # references and placeholders
    re.IGNORECASE,
)

_NAMED_VALUE = re.compile(
    r"(?<![\w.\-])(?:(?<=\\)[nrt])?(?P<name>[\w.\-]{2,80})"  # the character after a backslash: `\nTOKEN=…` in JSON
    r"(?:=(?!=)|(?:\\*[\"']\s{0,4}:|\s{0,4}=(?!=))\s{0,4}(?=\\*[\"']))"
)
"""Pattern of `name=`, `name = "`, `"name": ` and `\\"name\\": \\"`, JSON in JSON."""
_QUOTED_VALUE = re.compile(r"(?P<quote>\\*[\"'])(?P<value>(?:(?!(?<!\\)(?P=quote))[^\n]){1,4096})")
_PLAIN_VALUE = re.compile(
    r"(?P<value>(?:[^\s`'\"&,;\\]|\\+(?![\\\"'nrtu])"
    r"|(?:[&,](?![\w.\-]{1,40}=)|;(?![\w. \-]{1,40}=))(?=[^\s`'\"&,;\\]))*"  # a separator only before the next name
    r"[^\s`'\"&,;\\:.)])"
)
_SECRET_WORDS = ("key", "token", "secret", "pass", "pw", "auth", "cred", "sig", "pat", "dsn", "jwt", "bearer", "cookie")
"""Words in lower case; a text without any of them has no value under a secret's name."""

_MIN_LENGTH = 4
"""Minimum length of a text with a secret in it: `pw=a`."""
_WORD = re.compile(r"[a-z]{0,15}|.{0,5}", re.IGNORECASE | re.DOTALL)
"""Pattern of a secret that is not hidden by value: other texts have it by chance."""
_HELD: set[str] = set()
"""Secrets that this process itself uses, in the forms in which a server can repeat them."""


def hold_secret(value: str) -> str:
    """Return this value, which this process uses as a login: it is hidden in all output from now on."""
    secret = value.strip()
    if _WORD.fullmatch(secret) is None and not is_harmless(secret):
        encoded = b64encode(secret.encode("utf-8", "replace")).decode()
        _HELD.update((secret, encoded, quote(secret, safe=""), json.dumps(secret)[1:-1]))
    return value


def looks_secret(text: str) -> bool:
    """Return whether `text` holds a secret: something shaped like one, or a value under a secret's name."""
    return any(next(_secret_spans(t), None) is not None for t in (text, without_sequences(text)))


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
    if head == "secrets":
        return True
    return _NAME_END.search(key_path) is not None and _TEXT_TOKEN.fullmatch(key_path.rpartition(".")[2]) is None


def names_secret_variable(name: str) -> bool:
    """Return whether an environment variable of this name is likely a secret: GITHUB_PAT, PGPASS, API_KEYS, TOKEN1."""
    if name.upper().startswith("M_"):  # MaxText reads its keys from these; source: maxtext@0.2.5 configs/pyconfig.py
        return names_secret(name[2:].lower())
    is_text = _TEXT_TOKEN.fullmatch(name.lower()) is not None
    return not is_text and any(_VARIABLE_PART.fullmatch(part) for part in re.split(r"[_.:\-]", name))


def is_secret_variable(name: str, value: str) -> bool:
    """Return whether an environment variable's value is likely a secret by its name: no number, path or reference."""
    return names_secret_variable(name) and not _reveals_nothing(name, value)


def is_secret_value(name: str, value: str) -> bool:
    """Return whether a value is likely a secret by its name in a text or a document."""
    return _names_secret_in_text(name) and not _reveals_nothing(name, value)


@lru_cache(maxsize=4096)  # documents repeat their names
def _names_secret_in_text(name: str) -> bool:
    """Return whether a value behind this name is likely a secret; a name in capitals is a variable's."""
    if _VAGUE_NAME.fullmatch(name):
        return False
    return names_secret_variable(name) if name.isupper() else names_secret(name)


def _reveals_nothing(name: str, value: str) -> bool:
    return is_harmless(value) or (
        _REFERENCE_NAME.fullmatch(name) is not None and _READABLE.fullmatch(value) is not None
    )


def is_harmless(value: str) -> bool:
    """Return whether a value reveals nothing under any name: switches, numbers, paths, addresses and references."""
    return _HARMLESS.fullmatch(value) is not None and next(find_secrets(value, every_shape()), None) is None


def redact(text: str) -> str:
    """Return the text with every secret in it replaced by `…`. Colours that cut a secret are removed with it."""
    shown = _hide(text)
    plain = without_sequences(shown)
    if plain == text:  # neither a secret nor a colour: looked for again, it would give the same
        return shown
    hidden = _hide(plain)
    return shown if hidden == plain else hidden


def _hide(text: str) -> str:
    for value in sorted(_HELD, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    shown = []
    after = 0
    for start, end in sorted(_secret_spans(text)):
        if start >= after:
            shown.append(text[after:start])
        after = max(after, end)
    return HIDDEN.join((*shown, text[after:]))


def _secret_spans(text: str) -> Iterator[SecretSpan]:
    if len(text) < _MIN_LENGTH:
        return
    yield from find_secrets(text, every_shape())
    small = text.lower()
    if any(word in small for word in _SECRET_WORDS):
        yield from _named_secrets(text)


def _named_secrets(text: str) -> Iterator[SecretSpan]:
    done = 0
    for named in _NAMED_VALUE.finditer(text):
        if named.start() < done or not _names_secret_in_text(named["name"]):
            continue
        match = _QUOTED_VALUE.match(text, named.end()) or _PLAIN_VALUE.match(text, named.end())
        if match and not _reveals_nothing(named["name"], match["value"]):
            done = match.end()
            yield SecretSpan(*match.span("value"))
