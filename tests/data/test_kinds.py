"""Kinds of values; tests/contract/test_kinds.py compares them with those of Hugging Face datasets."""

from __future__ import annotations

from xsft.data.facts import RetypedColumn
from xsft.data.kinds import find_retyped_column


def test_column_that_is_null_first_and_text_later_is_retyped() -> None:
    assert find_retyped_column([{"note": None}] * 2, [{"note": None}, {"note": "x"}]) == RetypedColumn(
        "note", "null", "x"
    )
    assert find_retyped_column([{"note": None}, {"note": "y"}], [{"note": "x"}]) is None


def test_a_column_of_several_kinds_is_not_judged() -> None:
    assert find_retyped_column([{"note": 1}, {"note": "x"}], [{"note": ["a"]}]) is None
