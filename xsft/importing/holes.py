"""Holes: parts of a text whose value only the user's shell has. Pure.

In the text, a hole is NUL, number, NUL. Pastes with NUL are refused, so no other text has this form.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

HoleKind = Literal["variable", "command"]

_HOLE = re.compile("\0([0-9]+)\0")
_DATE = re.compile(r"(?:\$\(|`)\s*date\b")
_COMMIT = re.compile(r"(?:\$\(|`)\s*git\s+(?:rev-parse|describe)\b")


class Hole(Struct, frozen=True, kw_only=True):
    kind: HoleKind
    text: str
    """The variable's name, or the expansion as written."""
    label: str
    """The placeholder in the workload: `${NAME}`, which checks reject."""

    @property
    def is_date(self) -> bool:
        return self.kind == "command" and _DATE.match(self.text) is not None

    @property
    def is_commit(self) -> bool:
        return self.kind == "command" and _COMMIT.match(self.text) is not None


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
