import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.spec.yamltext import Surprise, resolve_plain, same_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("7", 7), ("-3", -3), ("+5", 5), ("0", 0), ("1e-5", 1e-5), ("1.10", 1.1), (".5", 0.5), ("2.", 2.0),
        ("no", "no"), ("off", "off"), ("yes", "yes"), ("on", "on"), ("12:30:00", "12:30:00"),
        ("2024-01-01", "2024-01-01"), ("0.2.5", "0.2.5"), ("1e", "1e"), ("-", "-"), ("--x", "--x"), ("٣", "٣"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_the_yaml_core_schema(text: str, value: object) -> None:
    resolved = resolve_plain(text)
    assert (resolved, type(resolved)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    ["0123", "-007", "00", "1_000", "0x10", "0b11", "0o17", ".inf", "-.INF", ".nan", "1e999", "9" * 19, "9" * 6000],
)
def test_scalars_that_yaml_readers_disagree_about_are_refused(text: str) -> None:
    resolved = resolve_plain(text)
    assert isinstance(resolved, Surprise)
    assert "quote it" in resolved.fix
    assert len(resolved.message) < 200


def test_fix_of_leading_zero_shows_the_plain_number() -> None:
    resolved = resolve_plain("-0123")
    assert isinstance(resolved, Surprise)
    assert "-123" in resolved.fix


def test_64_bit_integers_are_numbers() -> None:
    assert resolve_plain(str(2**63 - 1)) == 2**63 - 1
    assert isinstance(resolve_plain(str(2**63)), Surprise)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from((0.0, 1.0, "1", "")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, VALUES)
def test_same_value_agrees_with_equality_of_json(a: object, b: object) -> None:
    """JSON keeps what Python's `==` mixes up: numbers and booleans."""

    def text(value: object) -> str:
        plain = json.loads(json.dumps(value), parse_float=lambda number: int(float(number)))
        return json.dumps(plain, sort_keys=True)

    assert same_value(a, b) is (text(a) == text(b))
