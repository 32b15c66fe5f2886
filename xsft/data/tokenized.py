"""Counts the tokens of texts, by the tokenizer's own library in MaxText's environment, if that is built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from xsft.base.errors import XsftError
from xsft.data.facts import RoundTokens
from xsft.environments import environments
from xsft.environments.ask import Interpreter, ask
from xsft.machine.files import write_private
from xsft.machine.paths import own_cache
from xsft.machine.process import own_environment

COUNTER = "xsft.workers.token_counter"
TIMEOUT_S = 15.0
"""A tokenizer of transformers takes 2 s on a quiet machine, mostly imports."""
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model")
"""Files of a tokenizer that decide how a text is split."""

Texts = Sequence[Sequence[tuple[str, str]]]
Rounds = tuple[tuple[RoundTokens, ...], ...]
_ROUNDS = msgspec.json.Decoder(Rounds)
"""Made once: two threads in which msgspec describes a type at the same time crash the process (msgspec@0.22.0)."""


class CountTokens(Protocol):
    """The type of `count_tokens`, and of its form that asks once."""

    def __call__(self, texts: Texts, /, *, tokenizer: str) -> Rounds: ...


def count_tokens(texts: Texts, /, *, tokenizer: str, timeout_s: float = TIMEOUT_S) -> Rounds:
    """Return the tokens of each text; nothing if they could not be counted. `tokenizer`: its folder. The same texts are
    counted once.
    """
    maxtext = environments.find_environment("maxtext")
    if maxtext is None or not texts:
        return ()
    question = {"tokenizer": tokenizer, "texts": texts}
    kept = own_cache() / "token-counts" / f"{_tokens_digest(json.dumps(question), tokenizer, maxtext.digest)}.json"
    try:
        return _ROUNDS.decode(kept.read_bytes())
    except (OSError, msgspec.MsgspecError):
        pass
    try:
        found = _count_tokens(maxtext.python, question, timeout_s=timeout_s)
        write_private(kept, msgspec.json.encode(found))
    except (XsftError, OSError, msgspec.MsgspecError):
        return ()  # the note that nothing was counted stays
    return found


def _count_tokens(python: Path, question: object, *, timeout_s: float) -> Rounds:
    env = own_environment(HF_HUB_OFFLINE="1")
    interpreter = Interpreter(python=python, env=env, cwd=Path("/"), timeout_s=timeout_s)
    return _ROUNDS.decode(json.dumps(ask(interpreter, COUNTER, question)))


def _tokens_digest(question: str, tokenizer: str, environment: str) -> str:
    found = hashlib.sha256(f"{environment}\0{question}".encode())
    for file in (Path(tokenizer, name) for name in FILES):
        found.update(hashlib.sha256(file.read_bytes()).digest() if file.is_file() else b"-")
    return found.hexdigest()
