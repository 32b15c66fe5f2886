from __future__ import annotations

import pytest

from xsft.base.problems import error


@pytest.mark.parametrize(
    ("where", "expected"),
    [("name", True), ("name.x", True), ("name[0]", True), ("namespace", False), ("names.x", False), ("", False)],
)
def test_a_problem_is_in_a_key_and_below_it_and_not_in_a_longer_name(where: str, expected: bool) -> None:
    assert error("x", where, "m", "f").is_in(("name", "train")) == expected
    assert not error("x", "trainer", "m", "f").is_in(("name", "train"))
