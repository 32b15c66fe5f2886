"""The end of a sequence; tests/contract/test_data.py runs the worker in MaxText's environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.workers import read_examples
from xsft.workers.read_examples import length_of

PAD = 4


def length(ids: list[int], *, trained: tuple[int, ...] = (), segments: list[int] | None = None) -> int:
    """`trained`: positions whose target, the token after them, is trained."""
    flags = [position in trained for position in range(len(ids))]
    return length_of(ids, flags, segments or [1] * len(ids), pad=PAD)


def test_length_excludes_padding() -> None:
    assert length([1, 2, 3, PAD, PAD]) == 3
    assert length([1, 2, 3]) == 3
    assert length([PAD, PAD]) == 0
    assert length([]) == 0


def test_length_includes_the_repeated_last_token_of_a_truncated_prompt() -> None:
    assert length([1, 7, 7, 7, 7]) == 5


def test_length_includes_a_trained_pad_token() -> None:
    assert length([1, 2, PAD, PAD], trained=(1,)) == 3


def test_length_excludes_packed_padding_without_a_segment() -> None:
    assert length([1, 2, 9, 9], segments=[1, 1, 0, 0]) == 2


@given(st.lists(st.integers(0, 3), max_size=20), st.integers(0, 20))
def test_length_equals_the_number_of_ids_for_any_padding(ids: list[int], padding: int) -> None:
    assert length([*ids, *[PAD] * padding]) == len(ids)


def test_counted_prints_rows_and_rate_every_two_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((0.0, 1.0, 3.0, 4.0))
    monkeypatch.setattr(read_examples.time, "monotonic", lambda: next(times))
    assert list(read_examples.counted("abc", expected=3)) == ["a", "b", "c"]
    assert capsys.readouterr().out == '{"rows": 2, "seconds": 3.0, "total": 3}\n'
