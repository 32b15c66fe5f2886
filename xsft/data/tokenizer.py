"""Reads a tokenizer's files on this machine: in a folder, or in the hub's cache. Downloads nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from xsft.base.problems import Problem, error
from xsft.catalog.data import located
from xsft.data.facts import TokenizerFacts
from xsft.machine.paths import repository_folder
from xsft.spec.conversion_inputs import BRANCH
from xsft.spec.paths import is_local

_NO_DEFAULTS = frozenset({"PreTrainedTokenizerFast", "TokenizersBackend"})
"""Tokenizer classes of transformers without special tokens of their own; other classes may have some if a key is
absent.
"""

VOCABULARIES = ("tokenizer.json", "*.model", "vocab*", "*.tiktoken", "tekken.json")
"""Files of which a tokenizer has one: of tokenizers, SentencePiece, GPT-2 and BERT, tiktoken, Mistral."""

_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")


class _AddedToken(Struct, frozen=True, kw_only=True):
    content: str
    id: int = -1


_ConfiguredToken: TypeAlias = str | _AddedToken | UnsetType | None


class _NamedTemplate(Struct, frozen=True, kw_only=True):
    name: str
    template: str


class _TokenizerConfig(Struct, frozen=True, kw_only=True):
    """The relevant part of tokenizer_config.json and special_tokens_map.json."""

    tokenizer_class: str | None = None
    bos_token: _ConfiguredToken = UNSET
    eos_token: _ConfiguredToken = UNSET
    pad_token: _ConfiguredToken = UNSET
    unk_token: _ConfiguredToken = UNSET
    chat_template: str | list[_NamedTemplate] | None = None
    added_tokens_decoder: Raw | UnsetType = UNSET


class _Padding(Struct, frozen=True, kw_only=True):
    pad_token: str


class _TokenizerModel(Struct, frozen=True, kw_only=True):
    vocab: dict[str, int] | list[tuple[str, float]] = field(default_factory=dict)


class _TokenizerJson(Struct, frozen=True, kw_only=True):
    """The relevant part of tokenizer.json."""

    added_tokens: list[_AddedToken] = field(default_factory=list)
    padding: _Padding | None = None
    model: _TokenizerModel = field(default_factory=_TokenizerModel)


def read_tokenizer(
    name: str, *, hub_cache: Path, revision: str | None = None, wanted: tuple[str, ...] = ()
) -> TokenizerFacts | None:
    """Return the tokenizer's facts; None if there is nothing to read. `name` is a folder or an id on the hub;
    `revision`: on the hub, None for its default branch; `wanted`: tokens to look up.

    source: transformers@5.23.0 tokenization_utils_base.py [_from_pretrained], tokenization_utils_tokenizers.py
    [TokenizersBackend.__init__].
    """
    try:
        folder = _tokenizer_folder(name, hub_cache, revision or BRANCH)
        file = folder / "tokenizer.json"
        vocabulary = _VOCABULARY.decode(file.read_bytes()) if file.is_file() else _TokenizerJson()
        config = _read_tokenizer_config(folder, vocabulary)
        template = _template(folder, config)
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return None
    special = tuple(token.content for token in vocabulary.added_tokens)
    entries = {*special, *(entry if isinstance(entry, str) else entry[0] for entry in vocabulary.model.vocab)}
    bos, eos, pad, unk = (_token_of_role(config, role) for role in _ROLES)
    return TokenizerFacts(
        folder=str(folder),
        bos=bos,
        eos=eos,
        pad=pad,
        unk=unk,
        special=special,
        vocabulary=_vocabulary_size(vocabulary),
        template=template,
        missing=tuple(token for token in wanted if entries and token not in entries),
    )


def tokenizer_problem(name: str) -> Problem | None:
    """Return why transformers cannot load the folder of a tokenizer on this machine; None for a repository on the hub.

    source: transformers@5.23.0 tokenization_auto.py, tokenization_utils_tokenizers.py.
    """
    folder = Path(located(name)).expanduser()
    if not folder.is_dir():
        return _unloadable(f"{folder} is not a folder.") if is_local(name) else None
    if not any(any(folder.glob(pattern)) for pattern in VOCABULARIES):
        return _unloadable(f"{folder} has no vocabulary: none of {', '.join(VOCABULARIES)}.")
    for file in (folder / "tokenizer.json", folder / "tokenizer_config.json"):
        try:
            if file.exists() and (code := _own_code(msgspec.json.decode(file.read_bytes()))):
                return _unloadable(f"{file} names its own program, {code}, which MaxText does not run.")
        except OSError as failed:
            return _unloadable(f"{file} cannot be read: {failed.strerror}.")
        except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
            return _unloadable(f"{file} is not JSON.")
    return None


def _own_code(config: object) -> str:
    """Return the class that only the folder's own program defines; empty if transformers has it, or a base of it."""
    match config:
        case {"auto_map": {"AutoTokenizer": [*slow_and_fast]}, "tokenizer_class": tokenizer_class}:
            classes = {str(class_name).rpartition(".")[2] for class_name in slow_and_fast}
            return str(tokenizer_class) if tokenizer_class in classes else ""
        case _:
            return ""


def _unloadable(message: str) -> Problem:
    fix = "Use a folder with tokenizer.json and tokenizer_config.json, or a repository on the hub."
    return error("tokenizer-unreadable", "model.tokenizer", message, fix, kind="disputable")


def _vocabulary_size(vocabulary: _TokenizerJson) -> int | None:
    """Return the greatest id plus one: ids may have gaps."""
    entries = vocabulary.model.vocab
    ids = entries.values() if isinstance(entries, dict) else range(len(entries))
    return max((*ids, *(token.id for token in vocabulary.added_tokens)), default=-1) + 1 or None


def _tokenizer_folder(name: str, hub_cache: Path, revision: str) -> Path:
    """source: huggingface_hub@2.4.0 file_download.py [_cache_commit_hash_for_specific_revision]."""
    path = Path(located(name)).expanduser()
    if path.is_dir():
        return path
    repository = repository_folder(name, hub_cache)
    branch_or_tag = repository / "refs" / revision
    commit = branch_or_tag.read_text(encoding="utf-8").strip() if branch_or_tag.is_file() else revision
    return repository / "snapshots" / commit


_VOCABULARY = msgspec.json.Decoder(_TokenizerJson)
_CONFIG = msgspec.json.Decoder(_TokenizerConfig)
"""Each made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


def _read_tokenizer_config(folder: Path, vocabulary: _TokenizerJson) -> _TokenizerConfig:
    file = folder / "tokenizer_config.json"
    config = _TokenizerConfig()
    if file.exists() or not (folder / "tokenizer.json").exists():
        config = _CONFIG.decode(file.read_bytes())
    # A configuration with added_tokens_decoder is newer than this file, and transformers then ignores the file.
    more = folder / "special_tokens_map.json"
    if config.added_tokens_decoder is UNSET and more.is_file():
        special_tokens = _CONFIG.decode(more.read_bytes())
        tokens = {role: getattr(special_tokens, role) for role in _ROLES}
        config = replace(config, **{role: token for role, token in tokens.items() if token is not UNSET})
    if config.pad_token is UNSET and vocabulary.padding:
        return replace(config, pad_token=vocabulary.padding.pad_token)
    return config


def _token_of_role(config: _TokenizerConfig, role: str) -> str | None:
    """Return the token. Empty: it has none. None: the tokenizer's class decides."""
    value: _ConfiguredToken = getattr(config, role)
    if value is UNSET:
        return "" if config.tokenizer_class in _NO_DEFAULTS else None
    return value.content if isinstance(value, _AddedToken) else value or ""


def _template(folder: Path, config: _TokenizerConfig) -> str | None:
    """Return the chat template. A separate file has priority; of several templates MaxText uses the one named
    default.
    """
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = config.chat_template
    if isinstance(template, list):
        return next((named.template for named in template if named.name == "default"), None)
    return template
