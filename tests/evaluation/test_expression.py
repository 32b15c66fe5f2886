from __future__ import annotations

import pytest

from xsft.pod.expression import matches


@pytest.mark.parametrize(("text", "found"), [("it is 2.", True), ("it is 3.", False)])
def test_the_text_is_searched(text: str, found: bool) -> None:
    assert matches(r"is \d*2", text) is found


def test_an_expression_that_needs_exponential_time_is_given_up() -> None:
    assert matches("(a+)+$", "a" * 60 + "b", limit_s=0.3) is None


def test_an_invalid_one_is_named() -> None:
    with pytest.raises(ValueError, match="unterminated"):
        matches("(", "x")
