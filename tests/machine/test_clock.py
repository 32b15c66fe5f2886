from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from xsft.base.amounts import moment, with_z
from xsft.machine import clock

SENSELESS = ("Sat, 21 Nov 99999999999 12:00:00 GMT", "Sat, 21 Nov 2026 12:00:00 +9999999999999")


def test_now_has_the_time_format_of_kubernetes() -> None:
    text = clock.now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert with_z(text) == text
    parsed = moment(text)
    assert parsed is not None
    assert abs((datetime.now(UTC) - parsed).total_seconds()) < 60


def test_ahead_s_returns_the_clock_skew_of_a_date_header_beyond_the_round_trip() -> None:
    def said(seconds: float) -> str:
        return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)

    for seconds in (86_400.0, -86_400.0, 60.0):
        assert abs(clock.ahead_s(said(seconds)) - seconds) < 5
    none = (None, "", "yesterday", "Sat, 99 Nov 2026", *SENSELESS)
    assert {clock.ahead_s(date) for date in (said(0), said(2), *none)} == {0.0}
