from __future__ import annotations

import pytest

from tests.ids import pytest_make_parametrize_id
from xsft.cluster.objects import Condition


@pytest.mark.parametrize(
    ("value", "id"),
    [
        (("plan", "--json"), "plan --json"),
        ({"tpu": {"type": "v6e-8"}, "steps": (1, 2)}, "tpu=type=v6e-8 steps=1 2"),
        ({"b", "a"}, "a b"),
        (b"a\xff\n", r"a\xff\n"),
        (OSError("cut"), "OSError: cut"),
        (Condition(type="Active", status="True"), "type=Active status=True"),
        ("", "empty"),
        (" ", "' '"),
        ("x" * 61, f"{'x' * 40}...{'x' * 17}"),
    ],
)
def test_the_id_of_a_value_is_its_content(value: object, id: str) -> None:
    assert pytest_make_parametrize_id(value, "value") == id


def test_a_value_without_readable_content_is_refused() -> None:
    for value in (object(), lambda: None, Condition(type="Active", status="True", message="x" * 60)):
        with pytest.raises(pytest.UsageError, match=r"no readable id for value=.* use pytest\.param"):
            pytest_make_parametrize_id(value, "value")
