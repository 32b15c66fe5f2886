"""What an import has to say: differences, problems, and which texts it must never repeat. Pure."""

from __future__ import annotations

from msgspec import Struct

from xsft.importer.holes import Holes
from xsft.problems import Problem
from xsft.spec.keypath import printable
from xsft.spec.secrets import HIDDEN, is_harmless, looks_secret, names_secret, names_secret_variable, redact

MAX_SHOWN = 160
"""Characters of a pasted value that a difference quotes."""
_MIN_SECRET = 6
"""Shorter values are recognised by the name they stand under only: they occur by chance in other texts."""


class PasteDifference(Struct, frozen=True, kw_only=True):
    """One thing that will not be as pasted."""

    what: str
    """The flag, key, variable or command."""
    given: str | None
    """None: it was not in the paste."""
    now: str | None
    """None: it is not in the workload."""
    why: str


class Notes:
    """Collects while the paste is read."""

    def __init__(self, holes: Holes) -> None:
        self.holes = holes
        self._differences: dict[PasteDifference, None] = {}
        self.problems: list[Problem] = []
        self._named: set[str] = set()
        self._secrets: set[str] = set()

    def differ(self, what: str, *, given: str | None = None, now: str | None = None, why: str) -> None:
        shown = (None if text is None else self.shown(text) for text in (given, now))
        difference = PasteDifference(what=self.shown(what), given=next(shown), now=next(shown), why=why)
        self._differences[difference] = None
        self._named.add(difference.what)

    def has(self, what: str) -> bool:
        return what in self._named

    @property
    def differences(self) -> tuple[PasteDifference, ...]:
        """In the order they were found, each once."""
        return tuple(self._differences)

    def remember_secret(self, value: str) -> None:
        """A value that stands under a secret's name must not appear under another one either."""
        if len(value) >= _MIN_SECRET and not self.holes.inside(value) and not is_harmless(value):
            self._secrets.add(value)

    def is_secret(self, name: str, value: str) -> bool:
        """Whether the value is one by its name, by its shape, or because it was one before; or the name itself is."""
        if names_secret(name) and not is_harmless(value):
            return True
        return any(map(looks_secret, (name, value))) or any(secret in value for secret in self._secrets)

    def is_secret_variable(self, name: str, value: str) -> bool:
        """The same for an environment variable, whose name tells more."""
        return (names_secret_variable(name) and not is_harmless(value)) or self.is_secret(name, value)

    def shown(self, text: str) -> str:
        """On one line, short, without secrets."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        line = printable(redact(self.holes.labelled(text)))
        return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"
