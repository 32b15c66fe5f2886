"""docs/states.md and docs/why.md are the tables of the code."""

from __future__ import annotations

import re
from pathlib import Path

from xsft.states import running
from xsft.states.classify import BROKEN_AFTER_S
from xsft.states.folding import matches
from xsft.states.names import STATES, WORDS
from xsft.states.reasons import REASONS
from xsft.states.rules import CLUES, groups

DOCS = Path(__file__).parents[2] / "docs"
STATES_PAGE = (DOCS / "states.md").read_text()
WHY_PAGE = (DOCS / "why.md").read_text()


def test_every_reason_is_a_row_with_its_states_and_meaning() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+) \|$", STATES_PAGE.partition("## Reasons")[2], re.MULTILINE)
    told = [(slug, tuple(re.findall(r"`([a-z]+)`", states)), meaning) for slug, states, meaning in rows]
    assert told == [(reason.slug, reason.states, reason.meaning) for reason in REASONS]


def test_every_state_is_a_row_with_the_filters_that_mean_it() -> None:
    rows = re.findall(
        r"^\| `([a-z]+)` \| .+? \| (.+) \|$", STATES_PAGE.partition("## What is certain")[0], re.MULTILINE
    )
    told = {state: set(re.findall(r"`([a-z]+)`", filters)) for state, filters in rows}
    assert told == {state: {word for word in WORDS if word not in STATES and matches(state, word)} for state in STATES}


def test_documented_time_limits_are_those_of_the_code() -> None:
    said = " ".join(STATES_PAGE.split())
    for text in (
        f"{running.STALL_FACTOR:g} × the median step, and at least {running.STEP_SILENCE_S / 60:g} minutes",
        f"one step done | {running.UNKNOWN_STEP_SILENCE_S / 60:g} minutes",
        f"starting or compiling | {running.START_SILENCE_S / 60:g} minutes",
        f"evaluating | {running.EVAL_SILENCE_S / 60:g} minutes",
        f"saving | {running.SAVE_SILENCE_S / 60:g} minutes",
        f"more than {BROKEN_AFTER_S:g} seconds",
    ):
        assert text in said


def test_every_cause_is_a_row_with_its_group() -> None:
    groups_of = {"result": "result", "queue": "queue", "behind": "queue", "pods": "pods"}
    groups_of |= {"failure": "process", "restart": "process", "again": "process"}
    known: dict[str, str] = {"crash-loop": "process"}
    groups_of |= {"server": "server"}
    names = ("server", "result", "queue", "behind", "pods", "failure", "restart", "again", "state", "last")
    for name, rules in zip(names, groups(), strict=True):
        for rule in rules:
            known.setdefault(rule.id, groups_of.get(name, "state"))
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z]+) \| .+ \|$", WHY_PAGE, re.MULTILINE)
    assert len(rows) == len({row[0] for row in rows})
    assert dict(rows) == known


def test_every_clue_is_used_by_a_rule() -> None:
    assert set(CLUES.values()) == {rule.clues for group in groups() for rule in group}


def test_the_last_rules_cover_every_state() -> None:
    assert {state for rule in groups()[-1] for state in rule.states} == set(STATES)
