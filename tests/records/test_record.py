"""Facts add up to the same attempt in whatever order they are read."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations, permutations
from typing import get_args

import pytest
from hypothesis import given

from tests.records.arbitrary import any_of
from xsft.base.problems import note
from xsft.records.record import Attempt, AttemptFacts, Outcome, Record, with_facts

BEGUN = Attempt(number=1, outcome="submitting", submitter="a", manifest_digest="m")


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        (("created", "not-created"), "created"),
        (("unknown", "not-created"), "not-created"),
        (("created", "unknown"), "created"),
        (("created", "failed"), "failed"),
        (("created", "completed", "running"), "completed"),
        ((), "submitting"),
    ],
)
def test_the_best_known_outcome_wins_in_any_order(outcomes: tuple[Outcome, ...], outcome: Outcome) -> None:
    facts = tuple(AttemptFacts(outcome=one, at=str(n), submitter=str(n)) for n, one in enumerate(outcomes))
    ends = {with_facts(BEGUN, order).outcome for order in permutations(facts)}
    assert ends == {outcome}


RANKED: tuple[Outcome, ...] = ("submitting", "unknown", "not-created", "created", "running", "completed")


@pytest.mark.parametrize(("less", "more"), list(combinations(RANKED, 2)))
def test_a_certain_outcome_wins_over_a_later_less_certain_one(less: Outcome, more: Outcome) -> None:
    facts = (AttemptFacts(outcome=more, at="1"), AttemptFacts(outcome=less, at="2"))
    assert with_facts(BEGUN, facts).outcome == more


def test_a_created_attempt_records_user_time_and_manifest() -> None:
    created = AttemptFacts(
        outcome="created", at="t1", submitter="b", uid="u", manifest_digest="n", problems=(note("n", "", "m"),)
    )
    attempt = with_facts(BEGUN, (created, AttemptFacts(outcome="not-created", at="t0", submitter="a", reason="exists")))
    assert (attempt.created_at, attempt.created_by, attempt.uid, attempt.manifest_digest) == ("t1", "b", "u", "n")
    assert (attempt.finished_at, attempt.reason, attempt.submitter) == (None, None, "a")
    assert [p.id for p in attempt.problems] == ["n"]


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_only_an_ended_attempt_has_an_end_time(outcome: Outcome) -> None:
    ends = outcome not in {"submitting", "unknown", "created", "running"}
    assert with_facts(BEGUN, (AttemptFacts(outcome=outcome, at="t"),)).finished_at == ("t" if ends else None)


@given(any_of(AttemptFacts))
def test_every_fact_reaches_the_attempt(facts: AttemptFacts) -> None:
    attempt, values_given = (
        with_facts(BEGUN, (facts,)),
        {field.name: getattr(facts, field.name) for field in fields(facts)},
    )
    learnt = {key: value for key, value in values_given.items() if value is not None and key not in {"at", "submitter"}}
    learnt |= {"reason": facts.reason, "state_reason": facts.state_reason}
    if facts.outcome == "created":
        learnt |= {"created_at": facts.at, "created_by": facts.submitter or None}
    assert {key: getattr(attempt, key) for key in learnt} == learnt | {"problems": tuple(dict.fromkeys(facts.problems))}


def test_an_ended_attempt_keeps_the_fields_of_its_creation() -> None:
    facts_in_order = (
        AttemptFacts(outcome="failed", at="t2", reason="OOM"),
        AttemptFacts(outcome="created", at="t1", uid="u"),
    )
    attempt = with_facts(BEGUN, facts_in_order)
    assert (attempt.outcome, attempt.uid, attempt.created_at, attempt.finished_at) == ("failed", "u", "t1", "t2")


def test_the_last_attempt_decides_the_outcome_of_a_run() -> None:
    assert Record(run_name="a").outcome is None
    assert Record(run_name="a", attempts=(BEGUN,)).outcome == "submitting"
    with pytest.raises(IndexError):
        _ = Record(run_name="a").last
