"""This machine's clock may be a day off: no state, no reason and no age depends on it."""

from __future__ import annotations

import pytest

from tests.replacing import replace
from tests.states.cases import CASES
from tests.states.seen import NOW
from xsft.states.causes import explain
from xsft.states.classify import classify
from xsft.states.evidence import Evidence
from xsft.states.folding import RowFilter, chosen, fold
from xsft.states.model import Observation
from xsft.states.moments import before, moment
from xsft.states.rows import aged, row_of

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


@pytest.mark.parametrize("seconds", SKEWS)
@pytest.mark.parametrize("case", ON_CLUSTER, ids=[case[0] for case in ON_CLUSTER])
def test_every_stage_is_the_same(case: tuple[str, Observation, tuple[str, str]], seconds: float) -> None:
    _, seen, expected = case
    now, skewed = later(NOW, seconds), seen_by_a_clock_that_is_ahead(seen, seconds)
    status = classify(skewed, now=now)
    assert (status.state, status.reason) == expected
    row, right = row_of(skewed, status, now=now), row_of(seen, status, now=NOW)
    assert (row.age_s, row.evidence_age_s) == (right.age_s, right.evidence_age_s)
    later_row, later_right = aged(row, now=later(now, 60)), aged(right, now=later(NOW, 60))
    assert (later_row.age_s, later_row.evidence_age_s) == (later_right.age_s, later_right.evidence_age_s)
    shown, meant = (
        chosen(fold([one], classify=classify, now=at), RowFilter()) for one, at in ((skewed, now), (seen, NOW))
    )
    assert len(shown) == len(meant)
    if seen.before is not None:
        return  # its message quotes what an earlier call of this machine noted down
    told = explain(Evidence(seen=skewed, status=status), now=now).cause
    assert told.message == explain(Evidence(seen=seen, status=status), now=NOW).cause.message


def test_there_are_stages_that_depend_on_the_clock() -> None:
    """Else the test above would prove nothing."""

    def judged(seen: Observation, seconds: float) -> str:
        skewed = replace(seen_by_a_clock_that_is_ahead(seen, seconds), ahead_s=0.0)
        return classify(skewed, now=later(NOW, seconds)).state

    wrong = {s: [judged(seen, s) for _, seen, (state, _) in ON_CLUSTER if judged(seen, s) != state] for s in SKEWS}
    assert {"stalled", "failed"} <= set(wrong[DAY_S])
    assert wrong[-DAY_S]
