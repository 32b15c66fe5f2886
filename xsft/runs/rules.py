"""The rules of `why`, from rules.toml, the only file that this module reads."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from xsft.base.state_names import STATES
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Status
from xsft.runs import clues, clues_restart
from xsft.runs.cause_rule import Clue, LogPattern, Rule

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
    "restart": clues_restart.restart,
    "server": clues.server,
    "meaning": clues.meaning,
    "reason": clues.reason,
    "recorded": clues.recorded,
    "silence": clues.silence,
    "unread": clues.unread,
    "worth": clues.worth,
    "zero-loss": clues.zero_loss,
}
"""Name of a kind of clue -> function that yields its clues."""


LogRule = tuple[str, LogPattern]
"""Id and pattern of a cause that is found in a log."""


@cache
def rule_table() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))


@cache
def groups() -> tuple[tuple[Rule, ...], ...]:
    """Return the groups of rules in the file's order."""
    rules, named = rule_table()["rule"], rule_table()["group"]
    return tuple(tuple(_rule(rule, group) for rule in rules if rule["group"] == name) for name, group in named.items())


@cache
def log_rules() -> tuple[LogRule, ...]:
    """Return id and pattern of the causes that are found in a log, in the file's order: the likelier first."""
    return tuple((rule.id, rule.log) for group in groups() for rule in group if rule.log is not None)


def needs_dry_run(status: Status) -> bool:
    """Return whether a rule may explain the status by a dry run of the Jobs."""
    reading = (rule for group in groups() for rule in group if rule.clues is clues.refused)
    return any(rule.applies(status) for rule in reading)


def _rule(given: Mapping[str, Any], group: Mapping[str, Any]) -> Rule:
    return Rule(
        id=given["id"],
        clues=CLUES[given.get("clues", "said")],
        pattern=given.get("pattern", f"^{given['id']}$"),
        log=_log_pattern(given),
        message=given["message"],
        fix=given["fix"],
        states=frozenset(given.get("states", group.get("states", STATES))),
        reasons=frozenset(given.get("reasons", group.get("reasons", ()))),
        basis=given.get("basis", group.get("basis", "direct")),
        history=frozenset(group.get("history", ())),
    )


def _log_pattern(given: Mapping[str, Any]) -> LogPattern | None:
    if "log" not in given:
        return None
    return LogPattern(
        pattern=re.compile(given["log"]),
        printed=given.get("printed", "exception"),
        frames=re.compile(given["frames"]) if "frames" in given else None,
        before=re.compile(given["before"]) if "before" in given else None,
        echo=given.get("echo", False),
        text=given.get("text", ""),
    )
