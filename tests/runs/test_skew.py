"""With this machine's clock a day off, no state, reason or age changes: all times are of the cluster's clock."""

from __future__ import annotations

import pytest

from tests.replacing import replace
from tests.runs.cases import CASES
from tests.runs.seen import NOW
from xsft.base.amounts import before
from xsft.runs.classify import classify
from xsft.runs.lookup import RowFilter, chosen, fold
from xsft.runs.rows import aged, row_of

DAY_S = 86_400.0
ON_CLUSTER = [case for case in CASES if case[1].jobset is not None and case[1].last_known is None]


@pytest.mark.parametrize("seconds", [DAY_S, -DAY_S])
def test_a_skewed_clock_changes_no_age(seconds: float) -> None:
    now = before(NOW, seconds)
    for name, observation_of_case, expected in ON_CLUSTER:
        skewed = replace(observation_of_case, read_at=before(observation_of_case.observed_at, seconds))
        status = classify(skewed)
        assert (status.state, status.reason) == expected, name
        row, row_there = row_of(skewed, status, now=now), row_of(observation_of_case, status, now=NOW)
        assert (row.age_s, row.evidence_age_s) == (row_there.age_s, row_there.evidence_age_s), name
        assert aged(row, seconds=60) == aged(row_there, seconds=60)
        shown = fold([skewed], classify=classify, now=now), fold([observation_of_case], classify=classify, now=NOW)
        assert len(chosen(shown[0], RowFilter())) == len(chosen(shown[1], RowFilter())), name
