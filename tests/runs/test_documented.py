"""docs/states.md says what the code says, and every cause and state has a row of the generated tables."""

from __future__ import annotations

import re
from pathlib import Path

from xsft.base.state_names import STATES, WORDS
from xsft.runs import classify
from xsft.runs.causes import CLUES, groups, rule_table
from xsft.runs.classify import BROKEN_AFTER_S
from xsft.runs.lookup import matches

DOCS = Path(__file__).parents[2] / "docs"
STATES_PAGE = (DOCS / "states.md").read_text()


def test_every_state_is_a_row_with_the_filters_that_mean_it() -> None:
    rows = re.findall(
        r"^\| `([a-z]+)` \| .+? \| (.+) \|$", STATES_PAGE.partition("## What is certain")[0], re.MULTILINE
    )
    filters_by_state = {state: set(re.findall(r"`([a-z]+)`", filters)) for state, filters in rows}
    assert filters_by_state == {
        state: {word for word in WORDS if word not in STATES and matches(state, word)} for state in STATES
    }


def test_documented_time_limits_are_those_of_the_code() -> None:
    words = " ".join(STATES_PAGE.split())
    for text in (
        f"{classify.STALL_FACTOR:g} × the median step, and at least {classify.STEP_SILENCE_S / 60:g} minutes",
        f"one step done | {classify.UNKNOWN_STEP_SILENCE_S / 60:g} minutes",
        f"starting or compiling | {classify.START_SILENCE_S / 60:g} minutes",
        f"evaluating | {classify.EVAL_SILENCE_S / 60:g} minutes",
        f"saving | {classify.SAVE_SILENCE_S / 60:g} minutes",
        f"more than {BROKEN_AFTER_S:g} seconds",
    ):
        assert text in words


def test_every_cause_is_explained_once() -> None:
    """docs/reference/causes.md is made of these (docs/generate.py, `make check`)."""
    explained = [rule["id"] for rule in (*rule_table()["rule"], *rule_table()["also"]) if "about" in rule]
    assert len(explained) == len(set(explained))
    assert set(explained) == {rule.id for group in groups() for rule in group} | {"crash-loop"}
    assert all(rule["source"] for rule in rule_table()["rule"] if "log" in rule)


def test_every_clue_is_used_by_a_rule() -> None:
    assert CLUES.keys() == {rule.clues for group in groups() for rule in group}


def test_the_last_rules_cover_every_state() -> None:
    assert {state for rule in groups()[-1] for state in rule.states} == set(STATES)
