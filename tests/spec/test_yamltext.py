import subprocess
import sys
import time
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xsft.base.errors import SpecError
from xsft.base.problems import Problem
from xsft.spec.yamltext import MAX_DEPTH, MAX_PROBLEMS, parse_value, parse_yaml, resolve_plain


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(SpecError) as caught:
        parse_yaml(text)
    assert caught.value.problems
    return caught.value.problems


def test_parse_yaml_returns_data_lines_and_raw_text() -> None:
    parsed = parse_yaml("# c\na: {b: 1.10}\ndata:\n  columns:\n    - question\n    - no\ns: '1'\nt: |\n  12\n")
    assert parsed.data == {"a": {"b": 1.1}, "data": {"columns": ["question", "no"]}, "s": "1", "t": "12\n"}
    assert parsed.lines == {
        "a": 2,
        "a.b": 2,
        "data": 3,
        "data.columns": 4,
        "data.columns.0": 5,
        "data.columns.1": 6,
        "s": 7,
        "t": 8,
    }
    assert parsed.raw == {"a.b": "1.10"}


def test_byte_order_mark_and_document_markers_are_accepted() -> None:
    assert parse_yaml("\ufeff---\na: 1\n...\n# the end\n").data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "id", "where", "part"),
    [
        ("a:\n  b: 1\n  b: 2\n", "yaml-duplicate-key", "a.b", "first on line 2"),
        ("b: 0123\n", "yaml-surprise", "b", "line 1, column 4"),
        ("a: &x 1\n", "yaml-alias", "a", "anchor"),
        ("a: *x\n", "yaml-alias", "a", "alias"),
        ("a: !!python/object:os.system x\n", "yaml-tag", "a", "tag"),
        ("a: !x {b: 1}\n", "yaml-tag", "a", "tag"),
        ("<<: {a: 1}\n", "yaml-merge", "", "merge"),
        ("1: x\n", "yaml-key", "", "`1`"),
        ("? [a]\n: x\n", "yaml-key", "", "must be text"),
        ("name: {{ run }}\n", "yaml-key", "name", "must be text"),
        ("a:\n\tb: 1\n", "yaml-tab", "", "line 2"),
        ("a: [1, 2\n", "yaml-syntax", "", "starts on line 1"),
        ("a: b: c\n", "yaml-syntax", "", "column 5"),
        ("a: 1\n---\nb: 1\n", "yaml-documents", "", "line 2"),
        ("%YAML 1.1\n---\na: 1\n", "yaml-directive", "", "directive"),
        ("", "yaml-empty", "", "no keys"),
        ("# only\n# comments\n", "yaml-empty", "", "no keys"),
        ("---\n", "yaml-empty", "", "no keys"),
        ("- a\n", "yaml-not-mapping", "", "a list"),
        ("hello\n", "yaml-not-mapping", "", "a single value"),
        ("a: b\x00c\n", "yaml-character", "", "line 1, column 5: character U+0000"),
        ("a: \ud800\n", "yaml-character", "", "U+D800"),
        ('a: "\\0"\n', "yaml-character", "a", "NUL"),
    ],
)
def test_each_invalid_input_gives_one_problem(text: str, id: str, where: str, part: str) -> None:
    (problem,) = problems_of(text)
    assert (problem.id, problem.where, problem.severity) == (id, where, "error")
    assert part in problem.message
    assert problem.fix


def test_parse_yaml_reports_all_problems_up_to_a_maximum() -> None:
    reported = problems_of("a: 1\na: 2\nb: 0x1\nc: *d\n<<: {e: 1_0}\nf: [\n")
    assert [p.id for p in reported] == [
        "yaml-duplicate-key", "yaml-surprise", "yaml-alias", "yaml-merge", "yaml-surprise", "yaml-syntax",
    ]  # fmt: skip
    assert len(problems_of("k: 1\n" * 1000)) == MAX_PROBLEMS


def test_parse_errors_contain_no_secret() -> None:
    token = "hf" + "_" + "Ab1" * 12
    for text in (
        f"a: {token}: x\n",
        f"a: @{token}\n",
        f"{token}: 0123\n{token}: 1\n",
        f"a: 'x\n{token}",
        f"{token}",
        f"a: *{token}\n",
    ):
        with pytest.raises(SpecError) as caught:
            parse_yaml(text)
        assert token not in repr(caught.value.problems)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_problem_paths_escape_terminal_codes() -> None:
    (problem,) = problems_of('"\\e[31m": 0123\n')
    assert problem.where == "\\x1b[31m"


def test_nesting_depth_is_bounded() -> None:
    deepest = "a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert parse_yaml(deepest).data["a"]
    (problem,) = problems_of("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert problem.id == "yaml-too-deep"


BOMBS = {
    "flow lists": "a: " + "[" * 100_000,
    "flow maps": "{a: " * 100_000,
    "block lists": "- " * 10_000,
    "complex keys": "? " * 10_000,
    "aliases": "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(50_000)),
    "long keys": "? " + "k" * 100_000 + "\n: [" + "1," * 100_000 + "]",
    "directives": "a: 1\n...\n" + "%TAG !a! x\n" * 90_000 + "---\nb: 1\n",
    "documents": "--- a\n" * 100_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_yaml_bombs_are_refused_within_1_second(name: str) -> None:
    start = time.process_time()
    problems_of(BOMBS[name])
    assert time.process_time() - start < 1.0  # measured: at most 0.1 s


def test_parse_yaml_reads_50_000_keys_within_5_seconds() -> None:
    start = time.process_time()
    assert len(parse_yaml("".join(f"k{i}: {i}\n" for i in range(50_000))).data) == 50_000
    assert time.process_time() - start < 5.0  # measured: 0.4 s


def test_importing_the_reader_does_not_import_pydantic() -> None:
    code = "import sys, xsft.spec.yamledit, xsft.machine.files; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_parse_value_returns_one_value_with_raw_text() -> None:
    parsed_value = parse_value("[a, 1.10]", "x.y")
    assert (parsed_value.value, parsed_value.raw) == (["a", 1.1], {"x.y.1": "1.10"})


YAMLISH = st.text(st.sampled_from("ab1:-[]{}#&*!|>'\"%@`?, \n\t<~.0x_\\e\x00\ufeff\u2028é"), max_size=60)


@settings(max_examples=400)
@given(YAMLISH | st.text(max_size=200))
@example("\ud800")
@example('a: "\\ud800"')
@example("\ufeff\ufeff")
def test_any_text_gives_a_mapping_or_spec_error(text: str) -> None:
    try:
        data, problems = parse_yaml(text).data, ()
    except SpecError as refused:
        data, problems = {}, refused.problems
    assert isinstance(data, dict)
    assert all(p.id.startswith("yaml-") and p.message.isprintable() for p in problems)


# NUL has no place on a command line; surrogates none in UTF-8
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    [
        "1.10",
        "no",
        "1e5",
        "0o17",
        "0123",
        "null",
        "~",
        "",
        "<<",
        "12:30:00",
        "1_000",
        ".inf",
        "- a",
        "a: b",
        "*x",
        "!y",
        "{{ z }}",
    ]
)
NUMBER = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON_LIKE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Core(yaml.SafeDumper):
    """PyYAML quotes what YAML 1.1 reads as a number; text that only 1.2 reads as one (`1e5`) needs quotes too."""


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if resolve_plain(text) == text else '"')


Core.add_representer(str, _text)
Core.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


@settings(max_examples=200)
@given(st.dictionaries(TEXT, JSON_LIKE, min_size=1, max_size=4))
def test_dumped_yaml_is_read_back(data: dict[str, object]) -> None:
    assert parse_yaml(yaml.dump(data, Dumper=Core)).data == data
