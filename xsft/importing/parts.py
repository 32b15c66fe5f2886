"""The parts of a bash text: commands, words and parts of words. Pure."""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Literal(Struct, frozen=True, kw_only=True):
    text: str
    quoted: bool = False


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter expansion: `$NAME`, `${NAME}`, `${NAME:-argument}`."""

    name: str
    operator: str = ""
    argument: tuple[Part, ...] = ()
    quoted: bool = False


class Arithmetic(Struct, frozen=True, kw_only=True):
    """An arithmetic expansion: `$((source))`."""

    source: str
    quoted: bool = False


class UnknowableExpansion(Struct, frozen=True, kw_only=True):
    """An expansion whose value only running it would give: `$(date)`, `` `date` ``, `${NAME%x}`, `$1`."""

    source: str
    quoted: bool = False


Part: TypeAlias = Literal | Parameter | Arithmetic | UnknowableExpansion
Word: TypeAlias = tuple[Part, ...]


class ShellCommand(Struct, frozen=True, kw_only=True):
    words: tuple[Word, ...]
    line: int
    """First line, counted from 1."""
    before: str
    """The operator before it: `&&`, `|`, `;` …; empty at the start of a line."""
    after: str
    redirected: bool


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
