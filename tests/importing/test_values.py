"""Values as MaxText reads them; the contract test compares them with OmegaConf."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given

from tests.importing.specs import VALUE
from xsft.environments.installed import BuiltEnvironment
from xsft.importing.values import is_same_value, leaves, read_value
from xsft.trainer.arguments import yaml_value

TEXTS = (
    *("1", "01", "0x1F", "1e5", "1e-5", "1e30", "1.", ".5", "1_000", "yes", "No", "on", "True", "null", "~", ""),
    *("a b", "'1'", "[a,b]", "['a', \"b\"]", "[1,2.0,true]", "[]", "2026-01-01", "12:30", "gs://b/x", "a=b", "a:b"),
    *("none", '"\\u0085"', "1e", "é"),
)


@given(VALUE)
def test_written_values_are_read_back(value: object) -> None:
    assert read_value(yaml_value(value)) == value  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["{a: 1}", "[[1]]", "[a", "a: b", "*x", "!x y", ".inf", "9" * 30, "9" * 400])
def test_values_that_no_workload_can_hold_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"MaxText|cannot hold|not a finite"):
        read_value(text)


def test_a_float_may_exceed_the_largest_integer() -> None:
    assert read_value("[1e30, -1e30]") == [1e30, -1e30]


def test_same_compares_values_as_maxtext_does() -> None:
    assert is_same_value(1, 1.0)
    assert is_same_value(0, False)
    assert is_same_value([1, "a"], [1.0, "a"])
    assert not is_same_value([1], [1, 2])
    assert not is_same_value("1", 1)


@pytest.mark.contract
def test_omegaconf_reads_the_same_values(maxtext_environment: BuiltEnvironment) -> None:
    code = (
        "import json, sys; from omegaconf import OmegaConf as O\n"
        "print(json.dumps([O.to_container(O.from_cli([f'k={t}']))['k'] for t in json.load(sys.stdin)]))"
    )
    done = subprocess.run(
        [str(maxtext_environment.python), "-c", code],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [read_value(text) for text in TEXTS] == json.loads(done.stdout)


def test_mapping_of_texts_becomes_one_key_per_text() -> None:
    texts = {"template_config": {"PROMPT_TEMPLATE": 'Q: "{question}"\n', "REASONING_ANSWER_SEPARATOR": "####"}}
    keys = dict(leaves("formatting_func_kwargs", json.dumps(texts)))
    assert {key: read_value(text) for key, text in keys.items()} == {
        "formatting_func_kwargs.template_config.PROMPT_TEMPLATE": 'Q: "{question}"\n',
        "formatting_func_kwargs.template_config.REASONING_ANSWER_SEPARATOR": "####",
    }


@pytest.mark.parametrize("text", ["{1: a}", "{}", "[a]", "{a", "text", "{a: 1}"])
def test_a_value_that_is_no_mapping_of_texts_is_unchanged(text: str) -> None:
    assert list(leaves("other", text)) == [("other", text)]
    if text != "{a: 1}":
        assert list(leaves("formatting_func_kwargs", text)) == [("formatting_func_kwargs", text)]
