from __future__ import annotations

import pytest

from xsft.workers.expression import matching_texts


def test_expression_is_found_anywhere_in_a_text_or_matches_the_whole() -> None:
    texts = ("it is 2.", "is 2", "it is 3.")
    assert matching_texts(r"is \d*2", texts) == ("it is 2.", "is 2")
    assert matching_texts(r"is \d*2", texts, whole=True) == ("is 2",)


@pytest.mark.parametrize(
    ("expression", "text"),
    [("(a+)+$", "a" * 60 + "b"), ("(?:(?:(?:a?){9999}){9999}){9999}", "a")],
    ids=["time", "both"],
)
def test_expression_that_takes_too_much_has_no_answer(expression: str, text: str) -> None:
    assert matching_texts(expression, (text,), limit_s=0.3) is None


def test_invalid_expression_raises_value_error() -> None:
    with pytest.raises(ValueError, match="unterminated"):
        matching_texts("(", ("x",))
