"""Tokenizers on Hugging Face: family, chat template, gate. None is unknown: nothing follows from it. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

from xsft.catalog.data import toml


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
