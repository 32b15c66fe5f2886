"""A rule of `why`: a pattern in the evidence, its meaning, and the next step; and the meaning of every reason that a
state can have, from reasons.toml, the only file that this module reads. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from xsft.base.state_names import STATES, State
from xsft.cluster.observation import Status

MAX_QUOTED = 5
"""Number of lines quoted under a cause."""


Basis = Literal["direct", "inferred", "state"]
"""Certainty of a cause, as `Cause.basis` explains."""


class Clue(Struct, frozen=True, kw_only=True):
    text: str
    """A text in which a rule's pattern is searched."""
    where: str = ""
    """The object or worker it is about, e.g. `slice 1 host 37 (pod …)`."""
    quoted: tuple[str, ...] | None = None
    """Lines to show; None: those of the text."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Names for the rule's message and fix."""


class Rule(Struct, frozen=True, kw_only=True):
    """A row of rules.toml, with the values of its group; that file explains each field."""

    id: str
    message: str
    fix: str
    clues: str = "said"
    pattern: str = ""
    """Empty: the id, which is the text of the clue `said`."""
    states: frozenset[State] = frozenset(STATES)
    reasons: frozenset[str] = frozenset()
    basis: Basis = "direct"
    history: frozenset[State] = frozenset()
    log: str = ""
    """The pattern of what a process printed; empty if the cause is not found in a log."""
    printed: Literal["exception", "end", "final"] = "exception"
    frames: str | None = None
    before: str = ""
    echo: bool = False
    repeats: bool = False
    text: str = ""

    def applies(self, status: Status) -> bool:
        return status.state in self.states or status.reason in self.reasons


class Cause(Struct, frozen=True, kw_only=True):
    """One cause of the run's state."""

    id: str
    """Stable id; docs/reference/causes.md explains each."""
    message: str
    fix: str
    """The next step; empty if there is none."""
    where: str = ""
    """The object or process it is about; empty if it is about the run."""
    basis: Basis = "direct"
    """`direct`: the cluster or the trainer names it, so it is certain; `inferred`: concluded from missing reports;
    `state`: only the state is known."""
    evidence: tuple[str, ...] = ()
    """Lines as the cluster or the trainer wrote them, without secrets."""
    repeats: bool = False
    """Whether the same workload ends so again: the trainer's own exception names a fault of the workload."""


class Explanation(Struct, frozen=True, kw_only=True):
    state: State
    reason: str
    cause: Cause
    """The one cause."""
    others: tuple[Cause, ...] = ()
    """Other findings, the likelier first; consequences of the cause are left out."""


def causes(rule: Rule, clues: Iterable[Clue], *, words: Mapping[str, str]) -> Iterator[Cause]:
    """Yield at most one cause, from the first clue that matches the pattern."""
    for clue in clues:
        if match := re.search(rule.pattern or f"^{rule.id}$", clue.text):
            groups = {name: value or "" for name, value in match.groupdict().items()}
            names = {**words, **clue.values, **groups}
            quoted = (clue.text,) if clue.quoted is None else clue.quoted
            yield Cause(
                id=rule.id,
                message=_tidy(rule.message.format_map(names)),
                fix=_tidy(rule.fix.format_map(names)),
                where=clue.where,
                evidence=tuple(line for line in quoted if line)[:MAX_QUOTED],
                basis=rule.basis,
                repeats=rule.repeats,
            )
            return


def _tidy(text: str) -> str:
    """Return the text without the double spaces that empty names leave."""
    return re.sub(r" {2,}", " ", text).strip()


class Reason(Struct, frozen=True, kw_only=True):
    slug: str
    states: tuple[State, ...]
    meaning: str
    """The text, one line."""


_TABLE = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))["reason"]
REASONS = tuple(Reason(slug=slug, states=tuple(row["states"]), meaning=row["meaning"]) for slug, row in _TABLE.items())
BY_SLUG = {reason.slug: reason for reason in REASONS}
