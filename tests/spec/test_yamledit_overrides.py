import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import SpecError, UsageError
from xsft.spec.yamledit import apply_overrides
from xsft.spec.yamltext import ParsedYaml, parse_yaml

BASE = parse_yaml("name: a\ntrain:\n  steps: 10\n  lr: 1e-5\ndata:\n  columns: [q, a]\nlora: {rank: 4}\n")


def data_with(*settings: str) -> dict[str, object]:
    return apply_overrides(BASE, settings).data


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("name=x", ("name",), "x"),
        ("train.steps=20", ("train", "steps"), 20),
        ("train.learning_rate=1e-5", ("train", "learning_rate"), 1e-5),
        ("data.columns=[question,answer]", ("data", "columns"), ["question", "answer"]),
        ("parallelism.ici={fsdp: 16}", ("parallelism", "ici"), {"fsdp": 16}),
        ("overrides.maxtext.lora.lora_rank=4", ("overrides", "maxtext", "lora.lora_rank"), 4),
        ("env.A.B=no", ("env", "A.B"), "no"),
        ("env.FLAGS=--a=b c: d #e", ("env", "FLAGS"), "--a=b c: d #e"),
        ("env.N='7'", ("env", "N"), "7"),
        ("checks.a.b=why", ("checks", "a.b"), "why"),
        ("trian.x=null", ("trian", "x"), None),
    ],
)
def test_settings_are_typed_and_set_at_their_path(setting: str, path: tuple[str, ...], value: object) -> None:
    parsed: object = data_with(setting)
    for key in path:
        assert isinstance(parsed, dict)
        parsed = parsed[key]
    assert (parsed, type(parsed)) == (value, type(value))


def test_null_or_empty_value_removes_a_key() -> None:
    assert "lora" not in data_with("lora=null")
    assert data_with("train.lr=")["train"] == {"steps": 10}


def test_settings_replace_list_items_and_the_last_setting_wins() -> None:
    assert data_with("data.columns.1=z")["data"] == {"columns": ["q", "z"]}
    assert data_with("name=x", "name=y")["name"] == "y"


def test_overrides_update_raw_text_and_line_numbers() -> None:
    overridden = apply_overrides(BASE, ["train.lr=1.10", "data.columns=[1.50]"])
    assert overridden.raw == {"train.steps": "10", "train.lr": "1.10", "lora.rank": "4", "data.columns.0": "1.50"}
    assert "train.lr" not in overridden.lines
    assert "data.columns.0" not in overridden.lines
    assert overridden.lines["train.steps"] == 3


@pytest.mark.parametrize(
    ("setting", "id", "part"),
    [
        ("foo", "bad-set", "no `=`"),
        ("=x", "bad-set", "empty key"),
        ("a..b=1", "bad-set", "empty key"),
        (".".join("a" * 2000) + "=1", "bad-set", "2000 levels deep"),
        ("name.x=1", "bad-set", "name is a single value"),
        ("data.columns.2=x", "bad-set", "a list of 2"),
        ("data.columns.x=x", "bad-set", "a list of 2"),
        ("train.steps=0123", "yaml-surprise", "0123"),
        ("data.columns=[a", "yaml-syntax", "data.columns"),
        ("data.columns=[*a]", "yaml-alias", "data.columns"),
        ("x={a: 1, a: 2}", "yaml-duplicate-key", "given twice"),
    ],
)
def test_bad_settings_are_usage_errors(setting: str, id: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        data_with(setting)
    (problem,) = caught.value.problems
    assert problem.id == id
    assert part in problem.message
    assert problem.fix


def test_all_bad_settings_are_reported_without_their_tokens() -> None:
    token = "hf" + "_" + "Zz9" * 12
    with pytest.raises(SpecError) as caught:
        data_with("foo", f"{token}", f"name.x={token}", f"data=[{token}")
    assert len(caught.value.problems) == 4
    assert token not in repr(caught.value.problems)


@given(
    st.lists(
        st.text(max_size=20) | st.from_regex(r"(train|data|env|a)(\.[a-z0-9]{1,3}){0,3}=.{0,9}", fullmatch=True),
        max_size=4,
    )
)
def test_any_setting_applies_or_is_refused_and_never_changes_the_base(settings: list[str]) -> None:
    before = copy.deepcopy(BASE)
    try:
        outcome: object = apply_overrides(BASE, settings)
    except SpecError as refused:
        outcome = refused.problems
    assert isinstance(outcome, ParsedYaml) or (isinstance(outcome, tuple) and outcome)
    assert before == BASE
