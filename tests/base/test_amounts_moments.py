"""Times are compared as times, and what is none is told apart."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.amounts import before, earliest, latest, moment, seconds_between, with_z


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z", 2.0),
        ("2026-11-21T10:00:00Z", "2026-11-21T12:00:00+02:00", 0.0),
        ("2026-11-21T10:00:00", "2026-11-21T10:00:00.500123456Z", 0.500123),
        ("2026-11-21T10:00:02Z", "2026-11-21T10:00:00Z", -2.0),
        ("soon", "2026-11-21T10:00:00Z", None),
        ("2026-11-21T10:00:00Z", None, None),
        ("2026-11-21T10:00:00Z", "", None),
        ("0001-01-01T00:00:00+14:00", "2026-11-21T10:00:00Z", None),
    ],
)
def test_seconds_between_compares_times_in_any_form(
    earlier: str | None, later: str | None, seconds: float | None
) -> None:
    assert seconds_between(earlier, later) == seconds


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2026-11-21T10:00:00+00:00", "2026-11-21T10:00:00Z"),
        ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00Z"),
        ("2026-11-21T10:00:00.123456789Z", "2026-11-21T10:00:00.123456789Z"),
        ("2026-11-21T12:30:00.5+02:00", "2026-11-21T10:30:00.500000Z"),
        ("2026-11-21T10:00:00", "2026-11-21T10:00:00Z"),
        ("soon", "soon"),
        ("", ""),
    ],
)
def test_times_are_shown_in_one_form(time: str, shown: str) -> None:
    assert with_z(time) == shown


@given(st.datetimes(), st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
def test_a_time_is_the_same_after_with_z(time: datetime, offset: timedelta) -> None:
    written = time.replace(tzinfo=timezone(offset)).isoformat()
    assert with_z(written).endswith("Z") or moment(written) is None
    assert moment(with_z(written)) == moment(written)


@given(st.text())
def test_any_text_is_a_time_or_none(text: str) -> None:
    parsed = moment(text)
    assert parsed is None or parsed.utcoffset() is not None


def test_the_earliest_and_the_latest_of_those_that_are_times() -> None:
    times = (None, "soon", "2026-11-21T12:30:00+02:00", "2026-11-21T11:00:00Z")
    assert earliest(*times) == "2026-11-21T12:30:00+02:00"
    assert latest(*times) == "2026-11-21T11:00:00Z"
    assert earliest(None, "soon") is latest() is None


def test_since_is_subtracted_from_now() -> None:
    assert before("2026-11-21T12:00:00+00:00", 600) == "2026-11-21T11:50:00Z"
    assert before("2026-11-21T12:00:00+00:00", 1e11) == "0001-01-01T00:00:00Z"
    with pytest.raises(ValueError, match="not a valid time"):
        before("now", 1)
