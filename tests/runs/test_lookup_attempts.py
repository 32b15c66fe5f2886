"""The submission that `logs --attempt` and `why --attempt` select."""

from __future__ import annotations

import pytest

from tests.observations import NOW, jobset, judged, local, observed
from xsft.cluster.observation import Observation, Recorded
from xsft.runs.lookup import FoldedRun, attempt_of, fold, no_attempt, number_of

FIRST = observed(jobset=jobset("gemma", terminal="Failed"))
SECOND = observed(jobset=jobset("gemma-2", run_name="gemma", created_at="2026-11-21T11:00:00Z"))
GONE = observed(
    jobset=None, progress=None, record=Recorded(outcome="created", jobset="gemma-3", started_at="2026-11-21T09:00:00Z")
)


def run_of(*attempts: Observation) -> FoldedRun:
    (hit,) = fold(attempts, classify=judged, now=NOW)
    return hit


@pytest.mark.parametrize(
    ("name", "attempt", "expected"),
    [
        ("gemma", None, SECOND),
        ("gemma", 1, FIRST),
        ("gemma", 2, SECOND),
        ("gemma-2", None, SECOND),
        ("gemma-2", 1, FIRST),
        ("gemma", 3, GONE),
        ("gemma", 4, None),
        ("gemma", 0, None),
    ],
    ids=[
        "newest",
        "first by number",
        "second by number",
        "second by JobSet name",
        "first by number under the second's name",
        "deleted",
        "number too high",
        "number 0",
    ],
)
def test_attempt_of_chooses_the_submission_by_name_and_number(
    name: str, attempt: int | None, expected: Observation | None
) -> None:
    assert attempt_of(run_of(FIRST, SECOND, GONE), name=name, attempt=attempt) == expected


def test_the_name_of_a_jobset_chooses_its_submission() -> None:
    newer = observed(jobset=jobset("gemma-3", run_name="gemma", created_at="2026-11-21T11:30:00Z"))
    assert attempt_of(run_of(FIRST, SECOND, newer), name="gemma-2", attempt=None) == SECOND


def test_the_number_of_a_submission_is_read_from_its_jobset_or_its_record() -> None:
    assert [number_of(observation) for observation in (FIRST, SECOND, GONE)] == [1, 2, 3]
    assert number_of(local(record=Recorded(outcome="completed", number=2))) == 2
    assert number_of(observed(jobset=jobset("else", run_name="gemma"))) is None
    assert number_of(observed(jobset=None)) is None


def test_a_missing_attempt_is_reported_with_the_existing_ones() -> None:
    hit = run_of(FIRST, GONE)
    gone = no_attempt(hit, 2, gone="and so on", fix="do this")
    assert (gone.message, gone.fix) == ("Attempt 2 of gemma has no JobSet, and so on.", "do this")
    never = no_attempt(hit, 7, gone="", fix="")
    assert never.message == "gemma has no attempt 7. Known submissions: 1, 3 (gone)."
    assert never.fix == "Pass one of them to --attempt, or omit it for the newest."
    none = no_attempt(run_of(observed(jobset=jobset("else", run_name="gemma"))), 7, gone="", fix="")
    assert none.message == "gemma has no attempt 7. Known submissions: none."


def test_an_attempt_seen_twice_is_the_submission_with_a_jobset() -> None:
    record = Recorded(outcome="created", jobset="gemma", started_at="2026-11-21T09:00:00Z")
    gone = observed(jobset=None, progress=None, record=record)
    for both in ((gone, FIRST), (FIRST, gone)):
        assert attempt_of(run_of(*both), name="gemma", attempt=1) == FIRST
