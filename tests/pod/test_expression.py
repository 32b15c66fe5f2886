from __future__ import annotations

import pytest

from xsft.pod.expression import matches


@pytest.mark.parametrize(("text", "found"), [("it is 2.", True), ("it is 3.", False)])
def test_expression_is_searched_anywhere_in_the_text(text: str, found: bool) -> None:
    assert matches(r"is \d*2", text) is found


def test_expression_of_exponential_time_times_out() -> None:
    assert matches("(a+)+$", "a" * 60 + "b", limit_s=0.3) is None


def test_invalid_expression_raises_value_error() -> None:
    with pytest.raises(ValueError, match="unterminated"):
        matches("(", "x")
