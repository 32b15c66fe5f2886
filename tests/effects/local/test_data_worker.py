"""The end of a sequence; tests/contract/test_data.py runs the worker in MaxText's environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.effects.local import data_worker
from xsft.effects.local.data_worker import length_of

PAD = 4


def length(ids: list[int], *, trained: tuple[int, ...] = (), segments: list[int] | None = None) -> int:
    """`trained`: positions whose target, the token after them, is trained."""
    flags = [position in trained for position in range(len(ids))]
    return length_of(ids, flags, segments or [1] * len(ids), pad=PAD)


def test_padding_is_no_part_of_it() -> None:
    assert length([1, 2, 3, PAD, PAD]) == 3
    assert length([1, 2, 3]) == 3
    assert length([PAD, PAD]) == 0
    assert length([]) == 0


def test_a_prompt_that_repeats_a_token_until_it_is_cut_is_whole() -> None:
    assert length([1, 7, 7, 7, 7]) == 5


def test_a_pad_token_that_is_trained_is_no_padding() -> None:
    assert length([1, 2, PAD, PAD], trained=(1,)) == 3


def test_packed_padding_has_no_segment() -> None:
    assert length([1, 2, 9, 9], segments=[1, 1, 0, 0]) == 2


@given(st.lists(st.integers(0, 3), max_size=20), st.integers(0, 20))
def test_any_padding_is_taken_off_and_nothing_else(ids: list[int], padding: int) -> None:
    assert length([*ids, *[PAD] * padding]) == len(ids)


def test_the_rate_is_shown_every_two_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 1.0, 3.0, 4.0))
    monkeypatch.setattr(data_worker.time, "monotonic", lambda: next(times))
    assert list(data_worker.counted("abc", expected=3)) == ["a", "b", "c"]
    assert capsys.readouterr().out == '{"rows": 2, "seconds": 3.0, "total": 3}\n'
