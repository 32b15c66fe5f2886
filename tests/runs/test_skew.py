"""With this machine's clock a day off, no state, reason or age changes."""

from __future__ import annotations

import pytest

from tests.replacing import replace
from tests.runs.cases import CASES
from tests.runs.seen import NOW
from xsft.base.moments import before, moment
from xsft.cluster.evidence import Evidence
from xsft.cluster.observation import Observation, Status
from xsft.runs.causes import explain_state
from xsft.runs.classify import classify
from xsft.runs.folding import RowFilter, chosen, fold
from xsft.runs.rows import aged, row_of

DAY_S = 86_400.0
SKEWS = (DAY_S, -DAY_S)
ON_CLUSTER = [case for case in CASES if case[1].jobset is not None and case[1].last_known is None]


def later(text: str, seconds: float) -> str:
    return before(text, -seconds) if moment(text) else text


def seen_by_a_clock_that_is_ahead(seen: Observation, seconds: float) -> Observation:
    """The cluster's moments stay; ours move."""
    progress = seen.progress
    if progress is not None and progress.read_at is not None:
        progress = replace(progress, read_at=later(progress.read_at, seconds))
    earlier = replace(seen.before, at=later(seen.before.at, seconds)) if seen.before else None
    observed_at = later(seen.observed_at, seconds)
    return replace(seen, observed_at=observed_at, progress=progress, before=earlier, ahead_s=-seconds)


def told(seen: Observation, status: Status, *, now: str) -> tuple[object, ...]:
    """All that is shown of one run."""
    row = row_of(seen, status, now=now)
    later_row = aged(row, now=later(now, 60))
    ages = (row.age_s, row.evidence_age_s, later_row.age_s, later_row.evidence_age_s)
    listed = len(chosen(fold([seen], classify=classify, now=now), RowFilter()))
    if seen.before is not None:
        return ages, listed  # the message quotes what an earlier call of this machine noted down
    return ages, listed, explain_state(Evidence(seen=seen, status=status), now=now).cause.message


@pytest.mark.parametrize("seconds", SKEWS)
def test_a_skewed_clock_changes_no_stage(seconds: float) -> None:
    now = later(NOW, seconds)
    for name, seen, expected in ON_CLUSTER:
        skewed = seen_by_a_clock_that_is_ahead(seen, seconds)
        status = classify(skewed, now=now)
        assert (status.state, status.reason) == expected, name
        assert told(skewed, status, now=now) == told(seen, status, now=NOW), name


def test_some_stages_depend_on_the_clock_without_correction() -> None:
    """Else the test above would prove nothing."""

    def judged(seen: Observation, seconds: float) -> str:
        skewed = replace(seen_by_a_clock_that_is_ahead(seen, seconds), ahead_s=0.0)
        return classify(skewed, now=later(NOW, seconds)).state

    wrong = {s: [judged(seen, s) for _, seen, (state, _) in ON_CLUSTER if judged(seen, s) != state] for s in SKEWS}
    assert {"stalled", "failed"} <= set(wrong[DAY_S])
    assert wrong[-DAY_S]
