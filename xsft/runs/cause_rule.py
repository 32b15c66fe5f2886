"""A rule of `why`: a pattern in the evidence, its meaning, and the next step. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct, field

from xsft.base.state_names import State
from xsft.cluster.evidence import Evidence
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


class LogPattern(Struct, frozen=True, kw_only=True):
    """How a rule finds its cause in a log; rules.toml explains each field."""

    pattern: re.Pattern[str]
    printed: Literal["exception", "end", "final"] = "exception"
    frames: re.Pattern[str] | None = None
    before: re.Pattern[str] | None = None
    echo: bool = False
    text: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    id: str
    """Stable; docs/why.md explains each."""
    clues: Callable[[Evidence], Iterable[Clue]]
    pattern: str
    """Searched in each clue's text; its named groups are names for message and fix."""
    message: str
    """One sentence or two. `{name}` is a group, a value of the clue, or one of `words`."""
    fix: str
    """The next step, imperative; names as in the message."""
    states: frozenset[State]
    """States it can explain."""
    reasons: frozenset[str] = frozenset()
    """Also these reasons, whatever the state."""
    basis: Basis = "direct"
    history: frozenset[State] = frozenset()
    """States in which its cause is history: it comes after the causes of now. A cause that is history even for a run
    that is starting is about the last restart, and needs no pods as evidence."""
    log: LogPattern | None = None
    """Of a cause that is found in a log, which is then read as a clue: its text is the rule's id."""

    def applies(self, status: Status) -> bool:
        return status.state in self.states or status.reason in self.reasons


class Cause(Struct, frozen=True, kw_only=True):
    """One cause of the run's state."""

    id: str
    """Stable id; docs/why.md explains each."""
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


class Explanation(Struct, frozen=True, kw_only=True):
    state: State
    reason: str
    cause: Cause
    """The one cause."""
    others: tuple[Cause, ...] = ()
    """Other findings, the likelier first; consequences of the cause are left out."""


def causes(rule: Rule, evidence: Evidence, *, words: Mapping[str, str]) -> Iterator[Cause]:
    """Yield at most one cause, from the first clue that matches the pattern."""
    for clue in rule.clues(evidence):
        if match := re.search(rule.pattern, clue.text):
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
            )
            return


def _tidy(text: str) -> str:
    """Return the text without the double spaces that empty names leave."""
    return re.sub(r" {2,}", " ", text).strip()
