import time
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from xsft.base.errors import SpecError
from xsft.base.problems import Problem
from xsft.spec.explain import MAX_PROBLEMS, validate
from xsft.spec.yamltext import parse_yaml


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(Section):
    project: str
    zone: Literal["east", "west"] = "east"


class Train(Section):
    steps: Annotated[int, Field(ge=1)]
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 1e-5
    packing: bool = False
    seconds: int = 0


class Workload(Section):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z-]+$")]
    maxtext: Literal["0.2.5", "0.3"] = "0.2.5"
    weights: Literal["float32", "bfloat16"] | None = None
    place: Place | str | None = None
    train: Train | None = None
    columns: list[str] = []
    places: list[Place | str] = Field(default=[], max_length=2)
    env: dict[Annotated[str, StringConstraints(pattern=r"^[A-Z_]+$")], str] = {}
    ici: dict[Literal["fsdp", "tensor"], int] = {}
    overrides: dict[str, bool | int | float | str] = {}

    @field_validator("columns")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        if "bad" in value:
            raise ValueError("no template takes the column bad")
        if "worse" in value:
            raise PydanticCustomError("column_set", "no SFT path takes these", {"fix": "Use messages."})
        return value


REFUSED = {
    "pathways.headless": ("refused-headless", "the head has no pod"),
    "env.BAD": ("refused-bad", "it is bad"),
}


def check(text: str) -> Workload:
    parsed = parse_yaml(text)
    return validate(Workload, parsed.data, parsed, refusals=REFUSED)


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        check(text)
    assert caught.value.__context__ is None
    assert all(p.message and p.fix for p in caught.value.problems)
    return caught.value.problems


def test_valid_workload_gives_its_values() -> None:
    workload = check("name: a\nweights: float32\ncolumns: [q, a]\nplace: main\ntrain: {steps: 1, learning_rate: 1}\n")
    assert workload.columns == ["q", "a"]
    assert workload.weights == "float32"
    assert workload.place == "main"


@pytest.mark.parametrize(
    ("line", "id", "where", "part", "fix"),
    [
        ("trian: {steps: 1}", "unknown-key", "trian", "allowed: name", "Did you mean train?"),
        ("train: {stpes: 1, steps: 2}", "unknown-key", "train.stpes", "not a key of train", "Did you mean steps?"),
        ("train: {stpes: 1}", "unknown-key", "train.stpes", "not a key of train", "Did you mean steps?"),
        ("steps: 1", "unknown-key", "steps", "not a key of the workload", "Did you mean train.steps?"),
        ("train: {}", "missing-key", "train.steps", "is required", "Add train.steps."),
        ("train: {steps: 0}", "out-of-range", "train.steps", "given 0; allowed: at least 1", "at least 1"),
        ("train: {steps: 1, learning_rate: 2}", "out-of-range", "train.learning_rate", "at most 1", "at most 1"),
        ("train: {steps: x}", "wrong-type", "train.steps", "given 'x'; allowed: an integer", "an integer"),
        ("train: {steps: '5'}", "wrong-type", "train.steps", "given '5'", "Remove the quotes."),
        ("train: {steps: 1e3}", "wrong-type", "train.steps", "given 1e3", "Write 1000."),
        ("train: {steps: }", "wrong-type", "train.steps", "no value (null)", "Give a value"),
        ("train: {steps: true}", "wrong-type", "train.steps", "given true", "an integer"),
        ("train: 5", "wrong-type", "train", "allowed: a mapping (steps, learning_rate", "a mapping"),
        ("train: {steps: 1, packing: no}", "yaml-surprise", "train.packing", "text (YAML 1.2)", "Write false."),
        ("train: {steps: 1, packing: 1}", "wrong-type", "train.packing", "given 1", "true or false"),
        ("train: {steps: 1, seconds: 12:30:00}", "yaml-surprise", "train.seconds", "'12:30:00'", "one plain number"),
        ("env: {A: 1.10}", "yaml-surprise", "env.A", "given 1.10", 'Quote it: "1.10".'),
        ("columns: [a, 1.0]", "yaml-surprise", "columns.1", "given 1.0", 'Quote it: "1.0".'),
        ("columns: messages", "wrong-type", "columns", "a list", "[a, b]"),
        ("columns: [bad]", "not-allowed", "columns", "no template takes the column bad", "Change"),
        ("columns: [worse]", "column-set", "columns", "no SFT path takes these", "Use messages."),
        ("maxtext: 0.3", "yaml-surprise", "maxtext", "given 0.3", 'Quote it: "0.3".'),
        ("maxtext: 0.2.6", "not-allowed", "maxtext", "allowed: 0.2.5, 0.3", "Did you mean 0.2.5?"),
        ("weights: float23", "not-allowed", "weights", "allowed: float32, bfloat16", "Did you mean float32?"),
        ("place: {project: 1}", "yaml-surprise", "place.project", "given 1", 'Quote it: "1".'),
        ("place: {project: a, zoen: east}", "unknown-key", "place.zoen", "allowed: project, zone",
         "Did you mean zone?"),
        ("place: {}", "missing-key", "place.project", "is required", "Add place.project."),
        ("place: [a]", "wrong-type", "place", "a list of 1; allowed: a mapping (project, zone) or text", "text"),
        ("places: [a, {project: b, zone: north}]", "not-allowed", "places.1.zone", "allowed: east, west",
         "east or west"),
        ("places: [a, b, c]", "out-of-range", "places", "at most 2 item(s)", "at most 2"),
        ("overrides: {a.b: [1]}", "wrong-type", "overrides.a.b", "true or false, an integer, a number or text", "Give"),
        ("ici: {fsdpp: 16}", "unknown-key", "ici.fsdpp", "given 'fsdpp'; allowed: fsdp, tensor", "Did you mean fsdp?"),
        ("env: {a1: x}", "wrong-form", "env.a1", "given 'a1'", "Give text of the form"),
        ("pathways: {headless: true}", "refused-headless", "pathways.headless", "the head has no pod", "Remove"),
        ("env: {BAD: x}", "refused-bad", "env.BAD", "it is bad", "Remove"),
    ],
)  # fmt: skip
def test_each_error_gives_one_problem(line: str, id: str, where: str, part: str, fix: str) -> None:
    (problem,) = problems_of(f"name: a\n{line}\n")
    assert (problem.id, problem.where, problem.severity) == (id, where, "error")
    assert part in problem.message
    assert fix in problem.fix
    assert problem.message.endswith("(line 2)")


def test_check_reports_all_problems_with_their_lines() -> None:
    reported = problems_of("name: A\ntrain:\n  steps: 0\n  x: 1\nplace: {zone: a}\nenv: {A: 1}\n")
    assert {(p.id, p.where) for p in reported} == {
        ("wrong-form", "name"), ("out-of-range", "train.steps"), ("unknown-key", "train.x"), ("missing-key",
         "place.project"),
        ("not-allowed", "place.zone"), ("yaml-surprise", "env.A"),
    }  # fmt: skip
    assert [p.message[-8:] for p in reported if p.where == "train.x"] == ["(line 4)"]


def test_thousand_problems_are_cut_to_the_maximum() -> None:
    reported = problems_of("".join(f"k{i}: 1\n" for i in range(1000)))
    assert len(reported) == MAX_PROBLEMS + 1
    assert reported[-1].id == "more-problems"


def test_a_refused_key_takes_no_place_of_another_problem() -> None:
    others = "".join(f"k{i}: 1\n" for i in range(MAX_PROBLEMS))
    reported = problems_of(f"name: a\npathways: {{headless: true}}\n{others}")
    assert [p.id for p in reported] == ["refused-headless", *["unknown-key"] * MAX_PROBLEMS]


def test_problems_cut_and_escape_values_and_hide_secrets() -> None:
    token = "hf" + "_" + "Qw3" * 12
    reported = problems_of(
        f"name: '{token}'\nenv: {{HF_TOKEN: 12345}}\nmaxtext: {'x' * 500}\n{token}: 1\ntrain: '{token} \\e'\n"
    )
    assert token not in repr(reported)
    assert "12345" not in repr(reported)
    assert "x" * 61 not in repr(reported)
    assert all(p.message.isprintable() for p in reported)


LEAF = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["a", "no", "east", "1"])
KEYS = st.sampled_from(
    ["name", "train", "steps", "place", "project", "zone", "env", "columns", "x", "places", "weights", "ici"]
)
TREE = st.recursive(LEAF, lambda t: st.lists(t, max_size=3) | st.dictionaries(KEYS, t, max_size=4), max_leaves=10)


@given(st.dictionaries(KEYS, TREE, max_size=5))
def test_any_data_validates_or_gives_problems_at_its_own_keys(data: dict[str, object]) -> None:
    parsed = parse_yaml("a: 1")
    try:
        problems: tuple[Problem, ...] = ()
        validate(Workload, data, parsed)
    except SpecError as refused:
        problems = refused.problems
    labels = {"Place", "str", "int", "float", "bool", "[key]"}
    for problem in problems:
        assert problem.id != "internal"
        assert not labels & set(problem.where.split("."))
    assert len({(p.id, p.where) for p in problems}) == len(problems)


def test_hundred_thousand_problems_are_reported_within_8_cpu_seconds() -> None:
    """400,000 numbers under `columns` took 35 CPU-s."""
    start = time.process_time()
    reported = problems_of(f"name: a\ncolumns: [{', '.join(map(str, range(100_000)))}]\n")
    assert (len(reported), reported[-1].id) == (MAX_PROBLEMS + 1, "more-problems")
    assert str(100_000 - MAX_PROBLEMS) in reported[-1].message
    assert time.process_time() - start < 8.0  # measured: 2.5 s, of which YAML takes 2; 9 s before
