"""A problem: one thing a user should know before a slice is taken. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One finding. `id` is stable and documented in docs/checks.md."""

    id: str
    severity: Severity
    message: str
    """What was given and what is allowed, one sentence or two."""
    fix: str
    """The next step, imperative."""
    where: str = ""
    """Key path in the workload, e.g. `train.steps`; empty when it concerns the whole file."""
    file: str = ""

    def in_file(self, file: str) -> Problem:
        return replace(self, file=file)

    def as_warning_of(self, whose: str) -> Problem:
        """Of one of several; the others may still have an answer."""
        return replace(self, severity="warning", message=f"{whose}: {self.message}")

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def error(id: str, where: str, message: str, fix: str) -> Problem:
    return Problem(id=id, severity="error", where=where, message=message, fix=fix)


def warning(id: str, where: str, message: str, fix: str) -> Problem:
    return Problem(id=id, severity="warning", where=where, message=message, fix=fix)


def note(id: str, where: str, message: str, fix: str = "") -> Problem:
    return Problem(id=id, severity="note", where=where, message=message, fix=fix)


def errors_in(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(p for p in problems if p.severity == "error")
