"""Expand the variables in commands of a bash text; unknown values become holes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.importing.notes import Holes
from xsft.importing.words import (
    Arithmetic,
    Literal,
    Parameter,
    Part,
    ShellCommand,
    UnknowableExpansion,
    Word,
    read_commands,
)

MAX_CHARACTERS = 1_000_000
"""Limit on characters of one expanded word: `a=$b$b; b=$c$c; …` doubles with every line."""
MAX_EXPANDED = 5_000_000
"""Limit on characters of all expanded words: five thousand lines may each repeat one long variable."""

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_DECLARING = frozenset({"export", "declare", "typeset", "readonly", "local"})
_RESERVED = frozenset("if then elif else while until do ! { } fi done time".split())  # noqa: SIM905
_WRAPPERS = frozenset({"exec", "nohup", "time", "command", "sudo", "env", "stdbuf", "nice", "timeout"})
_SHELLS = frozenset({"bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash"})
_QUIET = frozenset({"", ":", "set", "shopt", "unset", "true", "["})
_MAX_SHELLS = 5
_BRACES = re.compile(r"(\{[^{}]*(?:,|\.\.)[^{}]*\})")
_DURATION = re.compile(r"[0-9.]+[smhd]?")


class SimpleCommand(Struct, frozen=True, kw_only=True):
    """A command after expansion."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    """Assignments before the command."""
    line: int = 0
    before: str = ""
    after: str = ""
    redirected: bool = False


class _Budget:
    """The number of characters that one paste may still expand to."""

    def __init__(self) -> None:
        self._left = MAX_EXPANDED

    def take(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            _refuse_length(MAX_EXPANDED)


class Shell:
    """The variables set so far, and the holes found so far."""

    def __init__(
        self,
        variables: Mapping[str, str] | None = None,
        holes: Holes | None = None,
        budget: _Budget | None = None,
    ) -> None:
        self.variables = dict(variables or {})
        self.exported: set[str] = set()
        self.used: set[str] = set()
        self.defaulted: dict[str, str] = {}
        """Variables that were not set and have a default in the text."""
        self.holes = Holes() if holes is None else holes
        self.budget = budget or _Budget()

    def run(self, text: str, *, depth: int = 0) -> list[SimpleCommand]:
        """Return the commands other than assignments. Raises SpecError."""
        commands: list[SimpleCommand] = []
        for command in read_commands(text):
            if simple := self._command(command):
                commands.extend(self._unwrap(simple, depth))
        return commands

    def _command(self, command: ShellCommand) -> SimpleCommand | None:
        words = list(command.words)
        while words and _unquoted_text(words[0]) in _RESERVED | {
            "$",
            "%",
        }:  # `$ xpk …`: a prompt, copied from a terminal
            words.pop(0)
        env: list[tuple[str, str]] = []
        while words and (assigned := self._assignment(words[0])):
            env.append(assigned)
            words.pop(0)
        if not words:
            self.variables.update(env)
            return None
        if _unquoted_text(words[0]) in _DECLARING:
            self._declare(words[1:])
            return None
        argv = tuple(field for word in words for field in self.fields(tuple(_with_braces_unknown(word))))
        if argv and argv[0] == "unset":
            for name in argv[1:]:
                self.variables.pop(name, None)
        if not argv or argv[0] in _QUIET:
            return None
        place = {"line": command.line, "before": command.before, "after": command.after}
        return SimpleCommand(argv=argv, env=tuple(env), redirected=command.redirected, **place)  # type: ignore[arg-type]

    def _assignment(self, word: Word) -> tuple[str, str] | None:
        first = word[0] if word else None
        if not isinstance(first, Literal) or first.quoted or not (match := _ASSIGNMENT.match(first.text)):
            return None
        remaining = (Literal(text=first.text[match.end() :]), *word[1:])
        before = self.variables.get(match.group(1), "") if match.group().endswith("+=") else ""
        return match.group(1), before + self.text(remaining)

    def _declare(self, words: list[Word]) -> None:
        for word in words:
            if assigned := self._assignment(word):
                self.variables.update([assigned])
                self.exported.add(assigned[0])
            else:
                self.exported.update(field for field in self.fields(word) if not field.startswith("-"))

    def _unwrap(self, simple: SimpleCommand, depth: int) -> Iterator[SimpleCommand]:
        """Yield the command without `exec`, `nohup`, `env A=B`, …, or the commands inside `bash -c '…'`."""
        argv, env = list(simple.argv), list(simple.env)
        while argv and PurePosixPath(argv[0]).name in _WRAPPERS and len(argv) > 1:
            wrapper = PurePosixPath(argv.pop(0)).name
            while argv and (argv[0].startswith("-") or (wrapper == "timeout" and _DURATION.fullmatch(argv[0]))):
                argv.pop(0)
            while argv and wrapper in ("env", "sudo") and _ASSIGNMENT.match(argv[0]):
                name, _, value = argv.pop(0).partition("=")
                env.append((name, value))
        script = _script(argv)
        if script is None or depth >= _MAX_SHELLS:
            yield replace(simple, argv=tuple(argv) or simple.argv, env=tuple(env))
            return
        inner = Shell({**self.variables, **dict(env)}, self.holes, self.budget)
        for inner_command in inner.run(script, depth=depth + 1):
            outer = replace(simple, argv=inner_command.argv, env=(*env, *inner.exports(), *inner_command.env))
            redirected = inner_command.redirected or simple.redirected
            before, after = inner_command.before or simple.before, inner_command.after or simple.after
            yield replace(outer, before=before, after=after, redirected=redirected)

    def exports(self) -> tuple[tuple[str, str], ...]:
        """Return the variables set here that a command started now would inherit."""
        return tuple((name, value) for name, value in self.variables.items() if name in self.exported)

    def fields(self, word: Word) -> list[str]:
        """Expand a word to the words that bash makes of it: unquoted text is split at blanks."""
        fields: list[list[str]] = []
        is_open = False
        for is_whole, text in self._values(word):
            for number, piece in enumerate([text] if is_whole else re.split(r"[ \t\n]+", text)):
                is_open = is_open and number == 0
                if (piece or is_whole) and not is_open:
                    fields.append([])
                    is_open = True
                if is_open:
                    fields[-1].append(piece)
        return ["".join(pieces) for pieces in fields]

    def text(self, word: Word) -> str:
        """Expand a word without splitting, as in an assignment."""
        return "".join(text for _, text in self._values(word))

    def _values(self, word: Word, *, is_expansion: bool = False) -> Iterator[tuple[bool, str]]:
        """Yield (whether it is quoted, text) for each part."""
        total = 0
        for is_whole, text in self._pieces(word, is_expansion=is_expansion):
            total += len(text)
            self.budget.take(len(text))
            if total > MAX_CHARACTERS:
                _refuse_length(MAX_CHARACTERS)
            yield is_whole, text

    def _pieces(self, word: Word, *, is_expansion: bool) -> Iterator[tuple[bool, str]]:
        """Yield the parts inside `${Z:-a 'b c'}`: bash splits the plain text and keeps the quoted."""
        for part in word:
            if isinstance(part, Parameter) and self._takes_argument(part):
                yield from self._argument(part)
            else:
                is_literal = isinstance(part, Literal) and not is_expansion
                yield is_literal or part.quoted, self._value(part)

    def _value(self, part: Part) -> str:
        match part:
            case Literal(text=text):
                return text
            case Parameter():
                return self._parameter(part)
            case Arithmetic(source=source):
                return self._arithmetic(source)
            case UnknowableExpansion(source=source):
                return self.holes.mark("command", source)

    def _takes_argument(self, part: Parameter) -> bool:
        value = self.variables.get(part.name)
        is_there = value is not None and (value != "" or not part.operator.startswith(":"))
        return part.operator[-1:] == "+" if is_there else part.operator[-1:] in ("-", "=")

    def _argument(self, part: Parameter) -> Iterator[tuple[bool, str]]:
        pieces = list(self._values(part.argument, is_expansion=True))
        self.used.add(part.name)
        if not part.operator.endswith("+"):
            self.defaulted[part.name] = "".join(text for _, text in pieces)
        if part.operator.endswith("="):
            self.variables[part.name] = self.defaulted[part.name]
            yield part.quoted, self.variables[part.name]
            return
        yield from ((part.quoted or is_whole, text) for is_whole, text in pieces)

    def _parameter(self, part: Parameter) -> str:
        self.used.add(part.name)
        if part.operator.endswith("+"):
            return ""
        value = self.variables.get(part.name)
        is_missing = value is None or (value == "" and part.operator.startswith(":"))
        return self.holes.mark("variable", part.name) if value is None or is_missing else value

    def _arithmetic(self, source: str) -> str:
        self.used.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", source))
        try:
            return str(evaluate(source, self.variables))
        except KeyError as unset:
            return self.holes.mark("variable", str(unset.args[0]))
        except ValueError:
            return self.holes.mark("command", f"$(({source}))")


def _refuse_length(limit: int) -> NoReturn:
    message = f"the variables expand to more than {limit:,} characters"
    raise SpecError((error("import-nesting", "", message, "Paste the command with its values."),))


def _with_braces_unknown(word: Word) -> Iterator[Part]:
    """Yield the parts; import does not expand braces, so `{a,b}` and `{1..3}` are unknown."""
    for part in word:
        if isinstance(part, Literal) and not part.quoted:
            for number, text in enumerate(_BRACES.split(part.text)):
                yield UnknowableExpansion(source=text) if number % 2 else Literal(text=text)
        else:
            yield part


def _unquoted_text(word: Word) -> str:
    return word[0].text if len(word) == 1 and isinstance(word[0], Literal) and not word[0].quoted else ""


def _script(argv: list[str]) -> str | None:
    """Return the script of `bash -c SCRIPT`, or None."""
    if not argv or argv[0] not in _SHELLS:
        return None
    options = next((i for i, word in enumerate(argv[1:], 1) if re.fullmatch(r"-[a-z]*c[a-z]*", word)), None)
    return argv[options + 1] if options is not None and options + 1 < len(argv) else None


_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<number>[0-9]{1,18})|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\$(?P<dollar>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$\{(?P<brace>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[0-9]{1,18}))?\})\s*"
)
"""`${NAME:-N}` is in the seed that xsft's own command increments at a restart."""


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
