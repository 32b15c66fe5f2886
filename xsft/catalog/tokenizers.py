"""Tokenizers on Hugging Face: family, chat template, gate, special tokens. None means unknown. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct

from xsft.catalog.data import toml


class SpecialTokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Special tokens that affect training. A text is empty if the tokenizer has no such token, None if unknown."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None
    ends: tuple[str, ...] | None = None
    """Special tokens that the chat template writes after an answer."""
    repeats: str | None = None
    """Text that the template writes before each later round when it is rendered alone, as MaxText does."""
    unused: str = ""
    """A token of the vocabulary that no text contains."""


def tokenizer_family(repo: str) -> str | None:
    """Return `qwen`, `llama3`, …: tokenizers of one family share a vocabulary. None for an unknown repository or a
    local path.
    """
    families: dict[str, str] = toml("tokenizers.toml")["families"]
    prefixes = [prefix for prefix in families if repo.startswith(prefix)]
    return families[max(prefixes, key=len)] if prefixes else None


def tokenizer_fits(*, family: str | None, repo: str) -> bool | None:
    """Return False if the tokenizer is of another family than the model (`Model.tokenizer_family`), so that every token
    differs; None if unknown.
    """
    other_family = tokenizer_family(repo)
    return None if other_family is None or family is None else other_family == family


def has_chat_template(repo: str) -> bool | None:
    """Return False if SFT on `messages` needs `chat_template_path` or the tokenizer of the instruction-tuned model;
    None if unknown.
    """
    templates: dict[str, list[str]] = toml("tokenizers.toml")["chat_template"]
    if any(fnmatchcase(repo, pattern) for pattern in templates["without"]):
        return False
    return True if any(fnmatchcase(repo, pattern) for pattern in templates["with"]) else None


def refuses_system(repo: str) -> bool:
    """Return whether the repository's own chat template is known to stop at a system message."""
    return repo.startswith(tuple(toml("tokenizers.toml")["system"]["refused"]))


def wants_alternating_roles(repo: str) -> bool:
    """Return whether the repository's own chat template is known to stop at two questions in a row."""
    return repo.startswith(tuple(toml("tokenizers.toml")["roles"]["alternate"]))


def is_gated(repo: str) -> bool | None:
    """Return True if the hub requires a token and an accepted licence; None if unknown."""
    gates: dict[str, list[str]] = toml("tokenizers.toml")["gated"]
    if repo.startswith(tuple(gates["yes"])):
        return True
    return False if repo.startswith(tuple(gates["no"])) else None


_TOKENS = msgspec.json.Decoder(SpecialTokens)
"""Created at import: msgspec@0.22.0 crashes if two threads do this for one type."""


def special_tokens(repo: str) -> SpecialTokens | None:
    rows: list[dict[str, Any]] = toml("tokenizers.toml")["special_tokens"]
    tokens = next((row for row in rows if any(fnmatchcase(repo, pattern) for pattern in row["repos"])), None)
    return None if tokens is None else row_tokens(tokens)


def row_tokens(row: Mapping[str, Any]) -> SpecialTokens:
    return _TOKENS.decode(json.dumps({key: value for key, value in row.items() if key != "repos"}))
