from __future__ import annotations

import math
from itertools import islice

import pytest

from xsft.machine.deadline import Deadline, Retries, doubling_pauses, retry_after_s


@pytest.mark.parametrize(
    ("message", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("inf", None)],
)
def test_retry_after_is_read_as_seconds_and_not_as_a_date(message: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": message}) == seconds


def test_retry_after_is_none_without_the_header() -> None:
    assert retry_after_s({}) is None


def pauses(*asked_s: float | None, left_s: float = 100.0, at_most: float = math.inf) -> list[float]:
    """Seconds that were slept, until no further try was allowed or the server asked for nothing more."""
    slept: list[float] = []
    retries = Retries((1.0, 2.0, 4.0), deadline=Deadline.after(left_s), sleep=slept.append)
    for asked_ in asked_s:
        if not retries.again(asked_, at_most=at_most):
            break
    return slept


def test_pauses_follow_their_list_and_end() -> None:
    assert pauses(None, None, None, None) == [1.0, 2.0, 4.0]
    assert pauses(None, None, None, at_most=2) == [1.0, 2.0]


def test_retry_after_lengthens_a_pause_and_never_shortens_it() -> None:
    assert pauses(7.0, 0.0) == [7.0, 2.0]


def test_no_pause_goes_beyond_the_deadline() -> None:
    assert pauses(None, None, None, left_s=3.0) == [1.0, 2.0]
    assert pauses(None, None, left_s=1.9) == [1.0]
    assert pauses(None, left_s=0.9) == []
    assert pauses(5.0, None, left_s=3.0) == []


def test_a_retry_after_over_the_longest_pause_ends_the_retries() -> None:
    retries = Retries((1.0, 2.0), longest_s=60.0)
    assert (retries.next_pause_s(60.0), retries.next_pause_s(61.0), retries.done) == (60.0, None, 1)


def test_endless_pauses_double_up_to_the_longest() -> None:
    assert list(islice(doubling_pauses(2.0, longest_s=15.0), 5)) == [2.0, 4.0, 8.0, 15.0, 15.0]
