from __future__ import annotations

import pytest

from xsft.effects.machine.retry_after import retry_after_s


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("inf", None)],
)
def test_seconds_are_read_and_a_date_is_not(said: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": said}) == seconds


def test_without_the_header_nothing_is_asked() -> None:
    assert retry_after_s({}) is None
