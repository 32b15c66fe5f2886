"""What bash's words are made of: pieces, sums and escapes; `xsft.importing.shell` reads them. Pure.

source: bash 5.2 manual, "Shell Expansions" and "Quoting".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from msgspec import Struct

_WRAPPERS = frozenset({"exec", "nohup", "time", "command", "sudo", "env", "stdbuf", "nice", "timeout"})
_DURATION = re.compile(r"[0-9.]+[smhd]?")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<number>[0-9]{1,18})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\$(?P<dollar>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$\{(?P<brace>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[0-9]{1,18}))?\})\s*"
)
"""A term of an arithmetic sum; `${NAME:-N}` is in the seed that xsft's own command increments at a restart."""
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")

PartKind: TypeAlias = Literal["plain", "quoted", "expanded"]


class WordPart(Struct, frozen=True, kw_only=True):
    """A part of a word after expansion."""

    text: str
    kind: PartKind = "plain"
    """plain, quoted: as written · expanded: outside of quotes, so that bash splits it at blanks."""


Word: TypeAlias = tuple[WordPart, ...]


def fields_of(word: Word) -> list[str]:
    """Return the words that bash makes of one: what was expanded outside of quotes is split at blanks."""
    fields: list[list[str]] = []
    is_open = False
    for piece in word:
        is_whole = piece.kind != "expanded"
        for number, text in enumerate([piece.text] if is_whole else re.split(r"[ \t\n]+", piece.text)):
            is_open = is_open and number == 0
            if (text or is_whole) and not is_open:
                fields.append([])
                is_open = True
            if is_open:
                fields[-1].append(text)
    return ["".join(texts) for texts in fields]


def joined_text(word: Word) -> str:
    """Return the word without splitting, as in an assignment."""
    return "".join(piece.text for piece in word)


def plain_text(word: Word) -> str:
    """Return the word as it was written; empty if a part is quoted or expanded."""
    return joined_text(word) if all(piece.kind == "plain" for piece in word) else ""


def without_wrappers(argv: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the command without `exec`, `nohup`, `timeout 10m`, … before it, and what `env` and `sudo` assign."""
    unwrapped = list(argv)
    env: list[tuple[str, str]] = []
    while len(unwrapped) > 1 and PurePosixPath(unwrapped[0]).name in _WRAPPERS:
        wrapper = PurePosixPath(unwrapped.pop(0)).name
        while unwrapped and (
            unwrapped[0].startswith("-") or (wrapper == "timeout" and _DURATION.fullmatch(unwrapped[0]))
        ):
            unwrapped.pop(0)
        while unwrapped and wrapper in ("env", "sudo") and ASSIGNMENT.match(unwrapped[0]):
            name, _, text = unwrapped.pop(0).partition("=")
            env.append((name, text))
    return unwrapped, env


def evaluate(source: str, variables: Mapping[str, str]) -> int:
    """Return the sum. Raises KeyError for a variable that is not set, ValueError for an unsupported expression."""
    total = 0
    position = 0
    while position < len(source) or not position:
        term = _TERM.match(source, position)
        if term is None or (position and not term["sign"]):
            raise ValueError(source)
        number = term["number"] or _value_of(term, variables)
        if not _INTEGER.fullmatch(number):
            raise ValueError(source)
        total += -int(number) if term["sign"] == "-" else int(number)
        position = term.end()
    return total


def _value_of(term: re.Match[str], variables: Mapping[str, str]) -> str:
    name = term["name"] or term["dollar"] or term["brace"]
    if term["default"]:
        return variables.get(name) or term["default"]
    return variables[name]


def unescape_ansi(text: str) -> str:
    """Return the value of `$'…'`."""
    return _ESCAPE.sub(_unescape, text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unescape(match: re.Match[str]) -> str:
    """Decode one escape. Bytes above 0x7f stay lone surrogates until the whole string is decoded."""
    byte, short, long, octal, letter = match.groups()
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF]).decode("utf-8", "surrogateescape")
    if short or long:
        code = int(short or long, 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return _LETTERS.get(letter, letter if letter in "\\'\"?" else f"\\{letter}")
