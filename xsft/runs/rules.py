"""The rules of `why`, from rules.toml, the only file that this module reads."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Status
from xsft.runs import clues
from xsft.runs.cause_rule import Clue, Rule

CLUES: Mapping[str, Callable[[Evidence], Iterable[Clue]]] = {
    "behind": clues.behind,
    "cluster-queue": clues.cluster_queue,
    "eviction": clues.eviction,
    "kueue": clues.kueue,
    "missing": clues.missing,
    "refused": clues.refused,
    "deadline": clues.deadline,
    "disrupted": clues.disrupted,
    "earlier": clues.earlier,
    "events": clues.events,
    "unplaced": clues.unplaced,
    "waiting": clues.waiting,
    "ended": clues.ended,
    "ended-in-place": clues.ended_in_place,
    "jobset": clues.jobset,
    "said": clues.said,
    "restart": clues.restart,
    "server": clues.server,
    "meaning": clues.meaning,
    "reason": clues.reason,
    "readmitted": clues.readmitted,
    "recorded": clues.recorded,
    "silence": clues.silence,
    "unread": clues.unread,
    "worth": clues.worth,
    "zero-loss": clues.zero_loss,
}
"""Name of a kind of clue -> function that yields its clues."""


msgspec.json.Decoder(Rule)  # at import: msgspec@0.22.0 crashes if two threads do this for one type


@cache
def rule_table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))


@cache
def groups() -> tuple[tuple[Rule, ...], ...]:
    """Return the groups of rules in the file's order."""
    rules, named = rule_table()["rule"], rule_table()["group"]
    return tuple(
        tuple(msgspec.convert({**group, **rule}, Rule) for rule in rules if rule["group"] == name)
        for name, group in named.items()
    )


@cache
def log_rules() -> tuple[Rule, ...]:
    """Return the rules whose causes are found in a log, in the file's order: the likelier first."""
    return tuple(rule for group in groups() for rule in group if rule.log)


def needs_dry_run(status: Status) -> bool:
    """Return whether a rule may explain the status by a dry run of the Jobs."""
    return any(rule.applies(status) for group in groups() for rule in group if CLUES[rule.clues] is clues.refused)
