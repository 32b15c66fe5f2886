"""Split a bash text into words; `xsft.importing.shell` expands them. Pure.

source: bash 5.2 manual, "Shell Syntax" and "Quoting". Loops, functions and arrays are parsed as words of commands.
"""

from __future__ import annotations

import re
from typing import NoReturn, TypeAlias

from msgspec import Struct

from xsft.base.errors import SpecError
from xsft.base.problems import error

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


MAX_NESTING = 40
"""Limit on levels of `${a:-${b:-…}}` and on here-documents, to bound parsing time."""

MAX_COMMANDS = 10_000

_PLAIN = re.compile(r"[^ \t\n\\'\"$`;&|()<>]+")
_DOUBLE_PLAIN = re.compile(r"[^\\\"$`]+")
_ARGUMENT_PLAIN = re.compile(r"[^\\'\"$`}]+")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;&|()\n]")
_REDIRECTION = re.compile(r"[0-9]*(?:<<<|<<-?|>>|[<>]&|>\||<>|[<>])|&>>?")
_BLANKS = re.compile(r"(?:[ \t]|\\[ \t]*\n)+")
_PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(:?[-=?+])?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEREDOC = re.compile(r"\n[\t]*[^\n]*")


def read_commands(text: str) -> tuple[ShellCommand, ...]:
    """Return the commands in order. Raises SpecError: `import-quote`, `import-nesting`."""
    return tuple(_Reader(text).commands())


class _Reader:
    """A position in the text; every method advances it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.here_documents = 0

    def commands(self) -> list[ShellCommand]:
        commands: list[ShellCommand] = []
        before = ""
        line, counted = 1, 0
        while self.at < len(self.text):
            start = self._after_blanks()
            line, counted = line + self.text.count("\n", counted, start), start
            words, redirected = self._read_simple_command()
            after = self._operator()
            if words:
                command = ShellCommand(words=tuple(words), line=line, before=before, after=after, redirected=redirected)
                commands.append(command)
                if len(commands) > MAX_COMMANDS:
                    message = f"the paste has more than {MAX_COMMANDS:,} commands"
                    raise SpecError((error("import-nesting", "", message, "Paste the xpk line and its exports."),))
            if words or after != "\n":  # a command continues on the next line after `&&`
                before = after.strip()
        return commands

    def _after_blanks(self) -> int:
        if blanks := _BLANKS.match(self.text, self.at):
            self.at = blanks.end()
        return self.at

    def _read_simple_command(self) -> tuple[list[Word], bool]:
        """Return the words up to the next operator, and whether there was a redirection."""
        words: list[Word] = []
        redirected = False
        while (start := self._after_blanks()) < len(self.text):
            if self.text[start] == "#":
                self._comment()
            elif redirection := _REDIRECTION.match(self.text, start):
                redirected = True
                self._redirection(redirection)
            elif _OPERATOR.match(self.text, start):
                break
            else:
                words.append(self._word())
        return words, redirected

    def _operator(self) -> str:
        if match := _OPERATOR.match(self.text, self.at):
            self.at = match.end()
        return match.group() if match else ""

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _redirection(self, match: re.Match[str]) -> None:
        """Skip a redirection's target, and the body of a here-document."""
        self.at = match.end()
        if self.text.startswith("(", self.at):
            self._skip_balanced("(", ")")
            return
        self._after_blanks()
        target = self._word()
        if match.group().lstrip("0123456789") in ("<<", "<<-"):
            self._here_document("".join(part.text for part in target if isinstance(part, Literal)))

    def _here_document(self, delimiter: str) -> None:
        """Remove the here-document's body from the text, so that the rest of its first line is parsed normally."""
        self.here_documents += 1
        if self.here_documents > MAX_NESTING:
            return
        for line in _HEREDOC.finditer(self.text, self.at):
            if line.group().strip() == delimiter:
                first = self.text.find("\n", self.at)
                self.text = self.text[:first] + self.text[line.end() :]
                return

    def _word(self) -> Word:
        parts = self._parts(_PLAIN, ends=" \t\n;&|()<>")
        if self.text.startswith("(", self.at) and parts and isinstance(parts[-1], Literal):
            start = self.at
            if parts[-1].text.endswith("="):
                self._skip_balanced("(", ")")
                parts.append(UnknowableExpansion(source=self.text[start : self.at]))
        return tuple(parts)

    def _parts(self, plain: re.Pattern[str], *, ends: str, is_double: bool = False) -> list[Part]:
        parts: list[Part] = []
        while self.at < len(self.text) and (c := self.text[self.at]) not in ends:
            if match := plain.match(self.text, self.at):
                self.at = match.end()
                parts.append(Literal(text=match.group(), quoted=is_double))
            elif c == "\\":
                parts.extend(self._backslash(is_double=is_double))
            elif c == "'":
                parts.append(self._read_single_quoted())
            elif c == '"':
                parts.extend(self._read_double_quoted())
            elif c == "`":
                start = self.at
                self._skip_balanced("`", "`")
                parts.append(UnknowableExpansion(source=self.text[start : self.at], quoted=is_double))
            else:
                parts.extend(self._dollar(is_double=is_double))
        return parts

    def _backslash(self, *, is_double: bool) -> list[Part]:
        following = self.text[self.at + 1 : self.at + 2]
        if not is_double and (blanks := _BLANKS.match(self.text, self.at)) and blanks.group()[0] == "\\":
            self.at = self.text.index("\n", self.at) + 1  # a backslash and trailing blanks also continue the line
            return []
        self.at += 2
        if following == "\n":
            return []
        is_escape = not is_double or (following and following in '$`"\\')
        return [Literal(text=following if is_escape and following else f"\\{following}", quoted=True)]

    def _read_single_quoted(self) -> Literal:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self._raise_unclosed("'", self.at)
        text = self.text[self.at + 1 : end]
        self.at = end + 1
        return Literal(text=text, quoted=True)

    def _read_double_quoted(self) -> list[Part]:
        start = self.at
        self.at += 1
        parts = self._read_nested(_DOUBLE_PLAIN, ends='"', is_double=True)
        if self.at >= len(self.text):
            self._raise_unclosed('"', start)
        self.at += 1
        return parts or [Literal(text="", quoted=True)]

    def _read_nested(self, plain: re.Pattern[str], *, ends: str, is_double: bool) -> list[Part]:
        self.depth += 1
        if self.depth > MAX_NESTING:
            message = f"expansions are nested deeper than {MAX_NESTING} levels (line {self._line(self.at)})"
            raise SpecError((error("import-nesting", "", message, "Write the values out."),))
        parts = self._parts(plain, ends=ends, is_double=is_double)
        self.depth -= 1
        return parts

    def _dollar(self, *, is_double: bool) -> list[Part]:
        start = self.at
        following = self.text[start + 1 : start + 2]
        self.at += 1
        if following and following in ("'", '"') and not is_double:
            return self._read_double_quoted() if following == '"' else [self._ansi(start)]
        if following == "(":
            return [self._parenthesis(start, is_double=is_double)]
        if following == "{":
            return [self._brace(start, is_double=is_double)]
        if name := _NAME.match(self.text, self.at):
            self.at = name.end()
            return [Parameter(name=name.group(), quoted=is_double)]
        if following and following in "0123456789@*#?$!-":
            self.at += 1
            return [UnknowableExpansion(source=self.text[start : self.at], quoted=is_double)]
        return [Literal(text="$", quoted=is_double)]

    def _ansi(self, start: int) -> Literal:
        end = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at)
        if not end:
            self._raise_unclosed("$'", start)
        self.at = end.end()
        return Literal(text=unescape_ansi(end.group()[1:-1]), quoted=True)

    def _parenthesis(self, start: int, *, is_double: bool) -> Part:
        self._skip_balanced("(", ")")
        inner = self.text[start + 2 : self.at - 1]
        if inner.startswith("(") and inner.endswith(")"):
            return Arithmetic(source=inner[1:-1], quoted=is_double)
        return UnknowableExpansion(source=self.text[start : self.at], quoted=is_double)

    def _brace(self, start: int, *, is_double: bool) -> Part:
        match = _PARAMETER.match(self.text, self.at)
        if match and match.group(2):
            self.at = match.end()
            plain = re.compile(r"[^\\\"$`}]+") if is_double else _ARGUMENT_PLAIN
            argument = tuple(self._read_nested(plain, ends="}", is_double=is_double))
            if self.at >= len(self.text):
                self._raise_unclosed("${", start)
            self.at += 1
            return Parameter(name=match.group(1), operator=match.group(2), argument=argument, quoted=is_double)
        self._skip_balanced("{", "}")
        if match and self.at == match.end() + 1:
            return Parameter(name=match.group(1), quoted=is_double)
        return UnknowableExpansion(source=self.text[start : self.at], quoted=is_double)

    def _skip_balanced(self, opening: str, closing: str) -> None:
        """Move from the opening character to just after its closing one; quotes inside hide both."""
        start, depth = self.at, 0
        for match in re.compile(r"\\.|'[^']*'|[(){}`]", re.DOTALL).finditer(self.text, self.at):
            token = match.group()
            if token == closing and (opening != closing or depth):
                depth -= 1
            elif token == opening:
                depth += 1
            if depth == 0 and token in (opening, closing):
                self.at = match.end()
                return
        self._raise_unclosed(opening, start)

    def _raise_unclosed(self, what: str, position: int) -> NoReturn:
        message = f"the {what} on line {self._line(position)} is not closed"
        fix = "Paste the whole command, up to its last quote or bracket."
        raise SpecError((error("import-quote", "", message, fix),))

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1
