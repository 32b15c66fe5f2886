"""A problem: one thing a user should know before a slice is taken, in words without a secret. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from xsft.base.secrets import redact

Severity = Literal["error", "warning", "note"]

ProblemKind = Literal["plain", "unrenderable", "secret", "disputable", "absent", "unmade", "unread", "open"]
"""What a problem blocks, and whether a user may accept it. Errors block plans and submissions:

- `unrenderable`: no launcher can render the workload.
- `secret`: a value shaped like one stands in the workload, so nothing is rendered or printed.
- `disputable`: the user may know better, and nothing is lost; so it may be accepted.

Warnings of a plan that block a submission:

- `open`: unless it is accepted.
- `unread`: unless it is accepted; this machine could not read it, and trying again may help.
- `absent`: always; something that the run needs does not exist yet, and accepting the problem would not create it.
- `unmade`: as `absent`, but an earlier stage of the workload makes it, and is not blocked itself.

A note that is `unread` names what was not read, and what is unknown as a result: `submit` and `check --offline`
print it.
"""

_COMMAND_OF_FILE = re.compile(r"(\bxsft (?:[a-z]+ )+)FILE\b")

RetryAdvice = Literal["helps", "unsure", "never"]
"""Whether trying again helps; `never` before a person has acted."""


FitFinding = Literal["fits", "marginal", "no", "invalid", "likely", "doubtful"]
"""Whether a run fits into the memory of its chips; `marginal`: the compiler accepts it, but a chip may run out of
memory; `invalid`: its step cannot be built; `likely` and `doubtful`: it was never compiled."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem that was found. `id` is stable and documented in docs/checks.md."""

    id: str
    severity: Severity
    message: str
    """What was given and what is allowed, one sentence or two."""
    fix: str
    """The next step, imperative."""
    where: str = ""
    """Key path in the workload, e.g. `train.steps`; empty if it concerns the whole file."""
    file: str = ""
    kind: ProblemKind = "plain"
    again: RetryAdvice = "unsure"
    fit: FitFinding | None = None
    """None if it is not about the memory of a run's chips."""

    def __post_init__(self) -> None:
        for name in ("message", "fix", "where", "file"):
            object.__setattr__(self, name, redact(getattr(self, name)))

    @property
    def can_be_accepted(self) -> bool:
        """Return whether `checks: {ID: why}` makes it a note, for plan and submit alike."""
        match self.severity:
            case "error":
                return self.kind == "disputable"
            case "warning":
                return self.kind not in ("absent", "unmade")
            case "note":
                return False

    @property
    def blocks_submission(self) -> bool:
        """Return whether the problem blocks a submission; a note was accepted and does not."""
        match self.severity:
            case "error":
                return True
            case "warning":
                return self.kind in ("absent", "unmade", "unread", "open")
            case "note":
                return False

    def in_file(self, file: str) -> Problem:
        """Return the problem of this file. A check does not know the file, so its fix writes `xsft run FILE`; here that
        becomes a command to copy."""
        named = shlex.quote(file) if file not in ("", "-") else "FILE"
        return replace(self, file=file, fix=_COMMAND_OF_FILE.sub(lambda match: f"{match[1]}{named}", self.fix))

    def is_in(self, keys: Iterable[str]) -> bool:
        """Return whether the problem is at one of these keys or below it: `namespace` is not below `name`."""
        return any(self.where == key or self.where.startswith((f"{key}.", f"{key}[")) for key in keys)

    def as_warning_of(self, whose: str) -> Problem:
        """Return the problem as a warning of one of several sources; the others may still answer."""
        return replace(self, severity="warning", message=f"{whose}: {self.message}")


def error(id: str, where: str, message: str, fix: str, *, kind: ProblemKind = "plain") -> Problem:
    return Problem(id=id, severity="error", where=where, message=message, fix=fix, kind=kind)


def warning(id: str, where: str, message: str, fix: str, *, kind: ProblemKind = "plain") -> Problem:
    return Problem(id=id, severity="warning", where=where, message=message, fix=fix, kind=kind)


def note(id: str, where: str, message: str, fix: str = "", *, kind: ProblemKind = "plain") -> Problem:
    return Problem(id=id, severity="note", where=where, message=message, fix=fix, kind=kind)


def errors_in(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(p for p in problems if p.severity == "error")


def namespace_missing(namespace: str, context: str) -> Problem:
    return error(
        "namespace-missing",
        "namespace",
        f"The cluster (context {context}) has no namespace {namespace}.",
        f"Use one that exists (`kubectl --context {context} get namespaces`), or ask the administrator to create it.",
    )
