"""Tokenizers on Hugging Face: family, chat template, gate, special tokens. None is unknown; nothing follows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import Struct

from xsft.catalog.data import toml


class SpecialTokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens that decide what MaxText trains. A text is empty where there is no such token, None where unknown."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    unk: str | None = None
    ends: tuple[str, ...] | None = None
    """Special tokens that the chat template writes after an answer."""
    repeats: str | None = None
    """What it writes before each later round where that is rendered alone, as MaxText does."""
    unused: str = ""
    """A token of the vocabulary that no text uses."""


def tokenizer_family(repo: str) -> str | None:
    """`qwen`, `llama3`, …: one family shares its vocabulary. None for an unknown repository or a local path."""
    families: dict[str, str] = toml("tokenizers.toml")["families"]
    prefixes = [prefix for prefix in families if repo.startswith(prefix)]
    return families[max(prefixes, key=len)] if prefixes else None


def tokenizer_fits(*, family: str | None, repo: str) -> bool | None:
    """False: the repository is of another family than the model (`Model.tokenizer_family`): every token differs."""
    given = tokenizer_family(repo)
    return None if given is None or family is None else given == family


def has_chat_template(repo: str) -> bool | None:
    """False: SFT on `messages` needs `chat_template_path`, or the tokenizer of the instruction-tuned sibling."""
    templates: dict[str, list[str]] = toml("tokenizers.toml")["chat_template"]
    if any(fnmatchcase(repo, pattern) for pattern in templates["without"]):
        return False
    return True if any(fnmatchcase(repo, pattern) for pattern in templates["with"]) else None


def is_gated(repo: str) -> bool | None:
    """True: a licence must be accepted on the hub and a token is needed."""
    gates: dict[str, list[str]] = toml("tokenizers.toml")["gated"]
    if repo.startswith(tuple(gates["yes"])):
        return True
    return False if repo.startswith(tuple(gates["no"])) else None


def special_tokens(repo: str) -> SpecialTokens | None:
    rows: list[dict[str, Any]] = toml("tokenizers.toml")["special_tokens"]
    found = next((row for row in rows if any(fnmatchcase(repo, pattern) for pattern in row["repos"])), None)
    return None if found is None else row_tokens(found)


def row_tokens(row: Mapping[str, Any]) -> SpecialTokens:
    return msgspec.convert({key: value for key, value in row.items() if key != "repos"}, SpecialTokens)
