from __future__ import annotations

import math
from itertools import islice

import pytest

from xsft.effects.machine.retries import Retries, doubling, retry_after_s


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("inf", None)],
)
def test_seconds_are_read_and_a_date_is_not(said: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": said}) == seconds


def test_without_the_header_nothing_is_asked() -> None:
    assert retry_after_s({}) is None


def pauses(*asked_s: float | None, budget_s: float = 100.0, at_most: float = math.inf) -> list[float]:
    """Seconds that were slept, until no further try was allowed or the server asked for nothing more."""
    slept: list[float] = []
    retries = Retries((1.0, 2.0, 4.0), budget_s=budget_s, sleep=slept.append)
    for asked in asked_s:
        if not retries.again(asked, at_most=at_most):
            break
    return slept


def test_pauses_come_in_turn_and_end() -> None:
    assert pauses(None, None, None, None) == [1.0, 2.0, 4.0]
    assert pauses(None, None, None, at_most=2) == [1.0, 2.0]


def test_a_server_may_ask_for_a_longer_pause_and_not_for_a_shorter() -> None:
    assert pauses(7.0, 0.0) == [7.0, 2.0]


def test_no_pause_goes_beyond_the_budget() -> None:
    assert pauses(None, None, None, budget_s=3.0) == [1.0, 2.0]
    assert pauses(5.0, None, budget_s=3.0) == []


def test_a_pause_that_is_too_long_is_not_slept() -> None:
    retries = Retries((1.0, 2.0), longest_s=60.0)
    assert (retries.next_pause_s(60.0), retries.next_pause_s(61.0), retries.done) == (60.0, None, 1)


def test_pauses_without_end_double_up_to_the_longest() -> None:
    assert list(islice(doubling(2.0, longest_s=15.0), 5)) == [2.0, 4.0, 8.0, 15.0, 15.0]
