"""Collect differences and problems of an import, and the secrets that must not be shown. Pure."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from xsft.base.problems import Problem
from xsft.base.secrets import HIDDEN, is_harmless, is_secret_variable, looks_secret, names_secret, redact
from xsft.spec.keypath import printable

HoleKind = Literal["variable", "command"]

_HOLE = re.compile("\0([0-9]+)\0")
_SUFFIXES = {
    "date": re.compile(r"(?:\$\(|`)\s*date\b"),
    "commit": re.compile(r"(?:\$\(|`)\s*git\s+(?:rev-parse|describe)\b"),
}


class Hole(Struct, frozen=True, kw_only=True):
    kind: HoleKind
    text: str
    """The variable's name, or the expansion as written."""
    label: str
    """The placeholder in the workload: `${NAME}`, which checks reject."""

    @property
    def suffix(self) -> str:
        """Return the run_name_suffix that stands for it, or an empty text."""
        if self.kind == "variable":
            return ""
        return next((suffix for suffix, command in _SUFFIXES.items() if command.match(self.text)), "")


class Holes:
    """The holes of one paste; equal texts make the same hole, so that values with holes can be compared."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[HoleKind, str], int] = {}
        self._holes: list[Hole] = []
        self._commands = 0

    def mark(self, kind: HoleKind, text: str) -> str:
        if (kind, text) not in self._numbers:
            self._commands += kind == "command"
            label = f"${{{text}}}" if kind == "variable" else f"${{COMMAND_{self._commands}}}"
            self._numbers[kind, text] = len(self._holes)
            self._holes.append(Hole(kind=kind, text=text, label=label))
        return f"\0{self._numbers[kind, text]}\0"

    def holes_in(self, text: str) -> tuple[Hole, ...]:
        return tuple(self._holes[int(number)] for number in _HOLE.findall(text))

    def label_holes(self, text: str) -> str:
        """Return the text with readable placeholders."""
        return _HOLE.sub(lambda match: self._holes[int(match.group(1))].label, text)


MAX_SHOWN = 160
"""Longest quotation of a pasted value in a difference, in characters."""
_MIN_SECRET = 6
"""Shorter values are treated as secrets only under a secret's name, because they occur by chance in other texts."""


class PasteDifference(Struct, frozen=True, kw_only=True):
    """A difference between the paste and the workload."""

    what: str
    """The flag, key, variable or command."""
    given: str | None
    """The pasted value; None if it was not in the paste."""
    now: str | None
    """The new value; None if it is not in the workload."""
    why: str


class Notes:
    """Differences and problems, collected while the paste is parsed."""

    def __init__(self, holes: Holes) -> None:
        self.holes = holes
        self._differences: dict[PasteDifference, None] = {}
        self.problems: list[Problem] = []
        self._named: set[str] = set()
        self._secrets: set[str] = set()

    def differ(self, what: str, *, given: str | None = None, now: str | None = None, why: str) -> None:
        difference = PasteDifference(
            what=self.printable_text(what),
            given=given and self.printable_text(given),
            now=now and self.printable_text(now),
            why=why,
        )
        self._differences[difference] = None
        self._named.add(difference.what)

    def has_noted(self, what: str) -> bool:
        return what in self._named

    @property
    def differences(self) -> tuple[PasteDifference, ...]:
        """Each difference once, in the order found."""
        return tuple(self._differences)

    def remember_secret(self, value: str) -> None:
        """Remember a secret's value, so that it is hidden under other names too."""
        if len(value) >= _MIN_SECRET and not self.holes.holes_in(value) and not is_harmless(value):
            self._secrets.add(value)

    def is_secret(self, name: str, value: str) -> bool:
        """Return whether a value is secret: by its name, by its format, because it was seen as one, or because the name
        is one.
        """
        if names_secret(name) and not is_harmless(value):
            return True
        return any(map(looks_secret, (name, value))) or any(secret in value for secret in self._secrets)

    def is_secret_variable(self, name: str, value: str) -> bool:
        """Return `is_secret` for an environment variable, whose name is more specific."""
        return is_secret_variable(name, value) or self.is_secret(name, value)

    def printable_text(self, text: str) -> str:
        """Return the text on one line, shortened, without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        line = printable(redact(self.holes.label_holes(text)))
        return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"
