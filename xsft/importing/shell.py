"""Read the commands of a bash text, and expand their words; unknown values become holes. Pure.

source: bash 5.2 manual, "Shell Syntax", "Quoting" and "Shell Expansions". Loops, functions and arrays are read as words
of commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from xsft.base.errors import SpecError
from xsft.base.problems import error
from xsft.importing.notes import Holes
from xsft.importing.words import (
    ASSIGNMENT,
    PartKind,
    Word,
    WordPart,
    evaluate,
    fields_of,
    joined_text,
    plain_text,
    unescape_ansi,
    without_wrappers,
)

MAX_EXPANDED = 5_000_000
"""Limit on characters of all expanded words: `a=$b$b; b=$c$c; …` doubles with every line."""
MAX_NESTING = 40
"""Limit on levels of `${a:-${b:-…}}` and on here-documents, to bound parsing time."""
MAX_COMMANDS = 10_000
MAX_SHELLS = 5
"""Limit on levels of `bash -c '…'`."""

_DECLARING = frozenset({"export", "declare", "typeset", "readonly", "local"})
_SKIPPED = frozenset("if then elif else while until do ! { } fi done time $ %".split())  # noqa: SIM905
"""Reserved words, and prompts that were copied from a terminal: `$ xpk …`."""
_SHELLS = frozenset({"bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash"})
_QUIET = frozenset({"", ":", "set", "shopt", "unset", "true", "["})
_BRACES = re.compile(r"(\{[^{}]*(?:,|\.\.)[^{}]*\})")

_PLAIN = re.compile(r"(?<!\S)[A-Za-z]+'(?![^'\n]*')|[^ \t\n\\'\"$`;&|()<>]+")
"""Of a word of letters, a quote that its line does not close is an apostrophe: `Don't`, `the users' data`."""
_DOUBLE_PLAIN = re.compile(r"[^\\\"$`]+")
_ARGUMENT_PLAIN = {"expanded": re.compile(r"[^\\'\"$`}]+"), "quoted": re.compile(r"[^\\\"$`}]+")}
_OPERATOR = re.compile(r"&&|\|\||\|&|;;|[;&|()\n]")
_REDIRECTION = re.compile(r"[0-9]*(?:<<<|<<-?|>>|[<>]&|>\||<>|[<>])|&>>?")
_BLANKS = re.compile(r"(?:[ \t]|\\[ \t]*\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(:?[-=?+])?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEREDOC = re.compile(r"\n[\t]*[^\n]*")
_SINGLE = re.compile(r"'([^']*)'")
_ANSI = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)


class SimpleCommand(Struct, frozen=True, kw_only=True):
    """A command after expansion."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    """Assignments before the command."""
    line: int = 0
    """First line, counted from 1."""
    before: str = ""
    """The operator before it: `&&`, `|`, `;` …; empty at the start of a line."""
    after: str = ""
    redirected: bool = False


class Shell:
    """The variables set so far, and the holes found so far."""

    def __init__(self, variables: Mapping[str, str] | None = None, holes: Holes | None = None) -> None:
        self.variables = dict(variables or {})
        self.exported: set[str] = set()
        self.used: set[str] = set()
        self.defaulted: dict[str, str] = {}
        """Variables that were not set and have a default in the text."""
        self.holes = Holes() if holes is None else holes
        self.expanded = 0
        """Characters of all expansions."""

    def run(self, text: str, *, depth: int = 0) -> list[SimpleCommand]:
        """Return the commands other than assignments. Raises SpecError: `import-quote`, `import-nesting`."""
        commands: list[SimpleCommand] = []
        for words, command in _Reader(text, self).commands():
            while words and plain_text(words[0]) in _SKIPPED:
                words.pop(0)
            assigned: list[tuple[str, str]] = []
            while words and (assignment := self._assignment(words[0])):
                assigned.append(assignment)
                words.pop(0)
            if words:
                commands += self._unwrap(replace(command, env=tuple(assigned)), words, depth)
            else:  # without a command, the assignments stay
                self.variables.update(assigned)
        return commands

    def _assignment(self, word: Word) -> tuple[str, str] | None:
        match = ASSIGNMENT.match(word[0].text) if word and word[0].kind == "plain" else None
        if match is None:
            return None
        before = self.variables.get(match[1], "") if match[0].endswith("+=") else ""
        return match[1], before + joined_text(word)[match.end() :]

    def _declare(self, words: list[Word]) -> None:
        for word in words:
            if assigned := self._assignment(word):
                self.variables.update([assigned])
                self.exported.add(assigned[0])
            else:
                self.exported.update(field for field in fields_of(word) if not field.startswith("-"))

    def _unwrap(self, command: SimpleCommand, words: list[Word], depth: int) -> Iterator[SimpleCommand]:
        """Yield the command without `exec`, `nohup`, `env A=B`, …, or the commands inside `bash -c '…'`."""
        if words and plain_text(words[0]) in _DECLARING:
            self._declare(words[1:])
            return
        argv = [field for word in words for field in fields_of(tuple(self._without_braces(word)))]
        # Of quiet commands only this one matters here.
        if argv[:1] == ["unset"]:
            for name in argv[1:]:
                self.variables.pop(name, None)
        if not argv or argv[0] in _QUIET:
            return
        unwrapped, assigned = without_wrappers(argv)
        env = (*command.env, *assigned)
        script = _script(unwrapped)
        if script is None or depth >= MAX_SHELLS:
            yield replace(command, argv=tuple(unwrapped or argv), env=env)
            return
        # What the inner shell sets is gone with it; its expansions count against the same limit.
        inner = Shell({**self.variables, **dict(env)}, self.holes)
        inner.expanded = self.expanded
        started_inside = inner.run(script, depth=depth + 1)
        self.expanded = inner.expanded
        for started in started_inside:
            yield replace(
                started,
                env=(*env, *inner.exports(), *started.env),
                line=command.line,
                before=started.before or command.before,
                after=started.after or command.after,
                redirected=started.redirected or command.redirected,
            )

    def exports(self) -> tuple[tuple[str, str], ...]:
        """Return the variables set here that a command started now would inherit."""
        return tuple((name, text) for name, text in self.variables.items() if name in self.exported)

    def _without_braces(self, word: Word) -> Iterator[WordPart]:
        """Yield the pieces; import does not expand braces, so `{a,b}` and `{1..3}` are unknown."""
        for piece in word:
            if piece.kind != "plain":
                yield piece
                continue
            for number, text in enumerate(_BRACES.split(piece.text)):
                if number % 2:
                    yield WordPart(text=self.holes.mark("command", text), kind="expanded")
                else:
                    yield WordPart(text=text)

    def variable(self, name: str) -> str:
        """Return the variable's text, or a hole."""
        self.used.add(name)
        text = self.variables.get(name)
        return self.holes.mark("variable", name) if text is None else text

    def arithmetic(self, source: str) -> str:
        """Return the sum, or a hole."""
        self.used.update(_NAME.findall(source))
        try:
            return str(evaluate(source, self.variables))
        except KeyError as unset:
            return self.holes.mark("variable", str(unset.args[0]))
        except ValueError:
            return self.holes.mark("command", f"$(({source}))")


def _script(argv: list[str]) -> str | None:
    """Return the script of `bash -c SCRIPT`, or None."""
    if not argv or argv[0] not in _SHELLS:
        return None
    scripts = (script for option, script in pairwise(argv) if re.fullmatch(r"-[a-z]*c[a-z]*", option))
    return next(scripts, None)


class _Reader:
    """A position in the text; every method advances it. Words are expanded as they are read."""

    def __init__(self, text: str, shell: Shell) -> None:
        self.text = text
        self.shell = shell
        self.at = 0
        self.depth = 0
        self.here_documents = 0
        self.skipping = 0
        """If positive, what is read has no effect: the target of a redirection, an argument that is not taken."""

    def commands(self) -> Iterator[tuple[list[Word], SimpleCommand]]:
        """Yield the words of each command, and the command without them."""
        before = ""
        line = 1
        counted = 0
        number = 0
        while self.at < len(self.text):
            self._match(_BLANKS)
            # Counted from the last command on: a paste has up to 10,000 of them.
            line += self.text.count("\n", counted, self.at)
            counted = self.at
            words, redirected = self._read_words()
            operator = self._match(_OPERATOR)
            after = operator[0] if operator else ""
            if words:
                number += 1
                if number > MAX_COMMANDS:
                    _refuse(f"the paste has more than {MAX_COMMANDS:,} commands", "Paste the xpk line and its exports.")
                command = SimpleCommand(argv=(), line=line, before=before, after=after, redirected=redirected)
                before = after.strip()
                yield words, command
            elif after != "\n":  # a command continues on the next line after `&&`
                before = after.strip()

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return what matches here, and move behind it."""
        if match := pattern.match(self.text, self.at):
            self.at = match.end()
        return match

    def _read_words(self) -> tuple[list[Word], bool]:
        """Return the words up to the next operator, and whether there was a redirection."""
        words: list[Word] = []
        redirected = False
        while self.at < len(self.text):
            # Words end at blanks, so that `#` here begins a comment, and `a#b` is a word.
            if self._match(_BLANKS) or self._match(_COMMENT):
                continue
            if redirection := self._match(_REDIRECTION):
                redirected = True
                self._redirection(redirection[0].lstrip("0123456789"))
            elif _OPERATOR.match(self.text, self.at):
                break
            else:
                words.append(self._word())
        return words, redirected

    def _redirection(self, operator: str) -> None:
        """Skip a redirection's target, and the body of a here-document."""
        if self.text.startswith("(", self.at):
            self._skip_balanced("(", ")")
            return
        self._match(_BLANKS)
        # The target is not imported, so that its holes need no value.
        self.skipping += 1
        target = joined_text(self._word())
        self.skipping -= 1
        if operator in ("<<", "<<-"):
            self._here_document(target)

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
        pieces = self._pieces(_PLAIN, ends=" \t\n;&|()<>", kind="plain")
        # An array, `NAME=(a b)`, is unknown as a whole.
        if self.text.startswith("(", self.at) and pieces and pieces[-1].text.endswith("="):
            start = self.at
            self._skip_balanced("(", ")")
            pieces.append(self._unknown(start, "expanded"))
        return tuple(pieces)

    def _pieces(self, plain: re.Pattern[str], *, ends: str, kind: PartKind) -> list[WordPart]:
        """Return the pieces up to one of the characters `ends`; `kind` is that of plain text here."""
        pieces: list[WordPart] = []
        expanded: PartKind = "quoted" if kind == "quoted" else "expanded"
        while self.at < len(self.text) and (c := self.text[self.at]) not in ends:
            start = self.at
            if match := self._match(plain):
                pieces.append(WordPart(text=match[0], kind=kind))
            elif c == "\\":
                pieces += self._backslash(is_double=kind == "quoted")
            elif c == "'":
                quoted = self._match(_SINGLE) or self._refuse_unclosed("'", start)
                pieces.append(WordPart(text=quoted[1], kind="quoted"))
            elif c == '"':
                pieces += self._double_quoted()
            elif c == "`":
                self._skip_balanced("`", "`")
                pieces.append(self._unknown(start, expanded))
            else:
                pieces += self._dollar(expanded)
        return pieces

    def _backslash(self, *, is_double: bool) -> list[WordPart]:
        following = self.text[self.at + 1 : self.at + 2]
        if not is_double and (blanks := _BLANKS.match(self.text, self.at)) and blanks.group()[0] == "\\":
            self.at = self.text.index("\n", self.at) + 1  # a backslash and trailing blanks also continue the line
            return []
        self.at += 2
        if following == "\n":
            return []
        is_escape = following and (not is_double or following in '$`"\\')
        return [WordPart(text=following if is_escape else f"\\{following}", kind="quoted")]

    def _double_quoted(self) -> list[WordPart]:
        start = self.at
        self.at += 1
        pieces = self._nested(_DOUBLE_PLAIN, '"', '"', kind="quoted", start=start)
        return pieces or [WordPart(text="", kind="quoted")]

    def _nested(self, plain: re.Pattern[str], opening: str, end: str, *, kind: PartKind, start: int) -> list[WordPart]:
        """Return the pieces up to the character `end`, and move behind it."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            line = self._line(self.at)
            _refuse(f"expansions are nested deeper than {MAX_NESTING} levels (line {line})", "Write the values out.")
        pieces = self._pieces(plain, ends=end, kind=kind)
        self.depth -= 1
        if self.at >= len(self.text):
            self._refuse_unclosed(opening, start)
        self.at += 1
        return pieces

    def _refuse_unclosed(self, opening: str, start: int) -> NoReturn:
        message = f"the {opening} on line {self._line(start)} is not closed"
        fix = "Paste the whole command, up to its last quote or bracket."
        raise SpecError((error("import-quote", "", message, fix),))

    def _dollar(self, kind: PartKind) -> list[WordPart]:
        start = self.at
        self.at += 1
        following = self.text[self.at : self.at + 1]
        if following in ("'", '"') and kind != "quoted":
            return self._dollar_quoted(start)
        if following == "(":
            return [self._parenthesis(start, kind)]
        if following == "{":
            return self._brace(start, kind)
        if name := self._match(_NAME):
            return [self._expanded(self.shell.variable, name[0], kind)]
        if following and following in "0123456789@*#?$!-":
            self.at += 1
            return [self._unknown(start, kind)]
        return [WordPart(text="$", kind="quoted" if kind == "quoted" else "plain")]

    def _dollar_quoted(self, start: int) -> list[WordPart]:
        if self.text[self.at] == '"':
            return self._double_quoted()
        ansi = self._match(_ANSI) or self._refuse_unclosed("$'", start)
        return [WordPart(text=unescape_ansi(ansi[1]), kind="quoted")]

    def _expanded(self, expand: Callable[[str], str], source: str, kind: PartKind) -> WordPart:
        """Return the text that `expand` gives for the source; nothing of what is skipped."""
        text = "" if self.skipping else expand(source)
        self.shell.expanded += len(text)
        if self.shell.expanded > MAX_EXPANDED:
            message = f"the variables expand to more than {MAX_EXPANDED:,} characters"
            _refuse(message, "Paste the command with its values.")
        return WordPart(text=text, kind=kind)

    def _unknown(self, start: int, kind: PartKind) -> WordPart:
        """Return the hole of an expansion whose value only running it would give: `$(date)`, `${NAME%x}`, `$1`."""
        return self._expanded(partial(self.shell.holes.mark, "command"), self.text[start : self.at], kind)

    def _parenthesis(self, start: int, kind: PartKind) -> WordPart:
        self._skip_balanced("(", ")")
        inner = self.text[start + 2 : self.at - 1]
        if inner.startswith("(") and inner.endswith(")"):
            return self._expanded(self.shell.arithmetic, inner[1:-1], kind)
        return self._unknown(start, kind)

    def _brace(self, start: int, kind: PartKind) -> list[WordPart]:
        match = _PARAMETER.match(self.text, self.at)
        if match and match[2]:
            self.at = match.end()
            return self._with_argument(match[1], match[2], start=start, kind=kind)
        self._skip_balanced("{", "}")
        if match and self.at == match.end() + 1:
            return [self._expanded(self.shell.variable, match[1], kind)]
        return [self._unknown(start, kind)]

    def _with_argument(self, name: str, operator: str, *, start: int, kind: PartKind) -> list[WordPart]:
        """Return the pieces of `${NAME:-argument}`: the argument, if bash takes it, else the variable."""
        text = self.shell.variables.get(name)
        is_missing = text is None or (text == "" and operator.startswith(":"))
        takes = operator[-1] in ("-=" if is_missing else "+")
        self.skipping += not takes
        argument = self._nested(_ARGUMENT_PLAIN[kind], "${", "}", kind=kind, start=start)
        self.skipping -= not takes
        if not takes:
            variable = self._expanded(self.shell.variable, name, kind)
            return [replace(variable, text="")] if operator[-1] == "+" else [variable]
        if not self.skipping:
            self.shell.used.add(name)
        if operator[-1] != "+" and not self.skipping:
            self.shell.defaulted[name] = joined_text(tuple(argument))
            if operator[-1] == "=":
                self.shell.variables[name] = self.shell.defaulted[name]
        return argument

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
        self._refuse_unclosed(opening, start)

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1


def _refuse(message: str, fix: str) -> NoReturn:
    raise SpecError((error("import-nesting", "", message, fix),))
