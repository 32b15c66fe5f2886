"""`key=value` arguments. MaxText itself reads them in tests/contract/test_arguments_through_maxtext.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given

from tests.trainer.values import HARD, VALUES, same
from xsft.spec.base import Value
from xsft.trainer.arguments import argument


class Loader(yaml.SafeLoader):
    """YAML 1.1 without dates and with `1e5` as a number, as OmegaConf reads it."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][-+]?\d+)\Z"), list("-+.0123456789")
)


def _read(text: str) -> Any:
    _, _, value = text.partition("=")
    return yaml.load(value, Loader=Loader)


@given(value=VALUES)
def test_a_value_survives_the_round_trip(value: Value) -> None:
    text = argument("key", value)
    assert text.startswith("key=")
    assert same(value, _read(text)), text


def test_a_hard_value_survives_the_round_trip() -> None:
    assert [value for value in HARD if not same(value, _read(argument("key", value)))] == []


@given(value=VALUES)
def test_an_argument_is_one_line(value: Value) -> None:
    assert len(argument("key", value).splitlines()) == 1


READABLE: tuple[tuple[Value, str], ...] = (
    (["messages"], "[messages]"),
    (["question", "answer"], "[question,answer]"),
    (1, "1"),
    (1.0, "1"),
    (0.5, "0.5"),
    (3e-06, "3e-6"),
    (0.0001, "0.0001"),
    (True, "True"),
    (None, "null"),
    ("deepseek3-671b", "deepseek3-671b"),
    ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3"),
    ("gs://my-bucket/ultrachat_200k/train_sft-*.parquet", "gs://my-bucket/ultrachat_200k/train_sft-*.parquet"),
    ("./xsft-runs", "./xsft-runs"),
    ("20261121", "'20261121'"),
    ("it's", "'it''s'"),
    ("a\nb", '"a\\nb"'),
)


@pytest.mark.parametrize(("value", "text"), READABLE, ids=[repr(value) for value, _ in READABLE])
def test_readable_values_are_written_plainly(value: Value, text: str) -> None:
    assert argument("key", value) == f"key={text}"


@pytest.mark.parametrize(
    "word", ["on", "null", "~", "0123", "1e5", "12:30", "", "- x", "a: b", "a #b", "{x}", "[x]", "x,y"]
)
def test_text_that_yaml_would_misread_is_quoted(word: str) -> None:
    assert argument("key", word) == f"key='{word}'"
