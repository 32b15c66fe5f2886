"""What a bash text is made of: commands, words, and the parts of a word. Pure."""

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
    """`$NAME`, `${NAME}`, `${NAME:-argument}`."""

    name: str
    operator: str = ""
    argument: tuple[Part, ...] = ()
    quoted: bool = False


class Arithmetic(Struct, frozen=True, kw_only=True):
    """`$((source))`."""

    source: str
    quoted: bool = False


class Unknowable(Struct, frozen=True, kw_only=True):
    """What only running it would tell: `$(date)`, `` `date` ``, `${NAME%x}`, `$1`."""

    source: str
    quoted: bool = False


Part: TypeAlias = Literal | Parameter | Arithmetic | Unknowable
Word: TypeAlias = tuple[Part, ...]


class ShellCommand(Struct, frozen=True, kw_only=True):
    words: tuple[Word, ...]
    line: int
    """Where it starts, counted from 1."""
    before: str
    """Operator in front of it: `&&`, `|`, `;` …; empty at the start of a line."""
    after: str
    redirected: bool


def unescaped(text: str) -> str:
    """The inside of `$'…'`."""
    return _ESCAPE.sub(_unescape, text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unescape(match: re.Match[str]) -> str:
    """Bytes above 0x7f travel as lone surrogates until the whole string is decoded."""
    byte, short, long, octal, letter = match.groups()
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF]).decode("utf-8", "surrogateescape")
    if short or long:
        code = int(short or long, 16)
        return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return _LETTERS.get(letter, letter if letter in "\\'\"?" else f"\\{letter}")
