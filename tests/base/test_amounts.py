from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.amounts import counted_text, duration_text, seconds_of, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (999.5, "1 kB"),
        (1900, "1.9 kB"),
        (63_000, "63 kB"),
        (999_600, "1 MB"),
        (1.856e9, "1.86 GB"),
        (2e13, "20 TB"),
    ],
)
def test_size_text_has_at_most_three_digits(size: float, text: str) -> None:
    assert size_text(size) == text


def test_counted_uses_the_singular_for_1() -> None:
    assert [counted_text(n, "file") for n in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("0.5s", 0.5)]
)
def test_durations_are_parsed_to_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "2 h", "h", "-1h", "1w", "1h30", "٣s", "1e3s", "1.m"])
def test_wrong_durations_are_refused_with_examples_of_right_ones(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 10m, 2h, 1d"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-3, "0s"), (59.9, "59s"), (90, "1m30s"), (754, "12m"), (12000, "3h20m"), (86400 * 12.5, "12d")],
)
def test_duration_text_has_at_most_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@given(st.integers(0, 10**8))
def test_duration_text_parses_back_rounded_down(seconds: int) -> None:
    shown = seconds_of(duration_text(seconds))
    assert shown <= seconds
    assert seconds - shown <= max(1, seconds * 0.1)
