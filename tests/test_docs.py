"""The documentation is true: its commands parse, its links lead somewhere, its tables are the code's."""

from __future__ import annotations

import argparse
import ast
import pkgutil
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.checks.idscan import ids_in_code
from xsft.base import errors
from xsft.environments import environments
from xsft.spec.explain import read_spec
from xsft.spec.model import WorkloadSpec
from xsft.spec.reference import anchor, schema
from xsft.verbs.cli import HIDDEN, VERBS, actions_of, main, parser

ROOT = Path(__file__).parent.parent
PAGES = tuple(sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))))
SOURCES = tuple(sorted((ROOT / "xsft").rglob("*.py")))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def blocks(page: Path, language: str) -> Iterator[str]:
    return (body for block_language, body in BLOCK.findall(page.read_text()) if block_language == language)


def commands() -> Iterator[tuple[str, str]]:
    """(page, line) of every shell line that calls xsft or make, also in comments of workloads."""
    for page in PAGES:
        for body in blocks(page, "sh"):
            for line in body.replace("\\\n", " ").splitlines():
                if line.startswith(("xsft ", "make ")):
                    yield page.name, line
    for workload in sorted((ROOT / "workloads").glob("*.yaml")):
        for line in re.findall(r"^#\s+(xsft .*)$", workload.read_text(), re.MULTILINE):
            yield workload.name, line


COMMANDS = tuple(commands())


def test_every_command_parses() -> None:
    assert len(COMMANDS) > 50
    ours = parser()
    assert [command for command in COMMANDS if not is_command(command[1], ours)] == []


def is_command(line: str, ours: argparse.ArgumentParser) -> bool:
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        return f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    try:
        return ours.parse_args(words[1:]).verb in VERBS
    except (SystemExit, errors.UsageError):
        return False


def test_every_workload_in_a_command_exists() -> None:
    named = [(command, word) for command in COMMANDS for word in shlex.split(command[1], comments=True)]
    assert [command for command, word in named if word.startswith("workloads/") and not list(ROOT.glob(word))] == []


def test_every_link_of_a_page_has_a_target() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(BLOCK.sub("", page.read_text()))]
    assert [(str(page), link) for page, link in links if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    if link.startswith(("https://", "http://")):
        return True
    file, _, section = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return False
    if not section:
        return True
    text = BLOCK.sub("", target.read_text())
    headings = map(anchor, re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return section in {*headings, *re.findall('<a id="([^"]+)">', text)}


NAMED_MODULE = re.compile(r"`(xsft(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?`")
NAMED_FILE = re.compile(r"(?<![\w/.@])((?:xsft|tests)/[\w/]+\.(?:py|toml))\b")


def test_every_named_module_exists() -> None:
    """`xsft.importer.expand` was renamed, and its docstring kept the old name."""
    texts = {str(file): file.read_text(encoding="utf-8") for file in (*PAGES, *SOURCES)}
    modules = [(file, name) for file, text in texts.items() for name in NAMED_MODULE.findall(text)]
    assert [match for match in modules if not is_module_or_function(match[1])] == []
    files = [(file, name) for file, text in texts.items() for name in NAMED_FILE.findall(text)]
    assert [match for match in files if not (ROOT / match[1]).exists()] == []


def is_module_or_function(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_marker_is_explained() -> None:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert [name for marker in markers if f"`{(name := re.split(r'[:(]', marker)[0])}` (" not in page] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented_and_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"`xsft {verb}" in (ROOT / "README.md").read_text()
    assert main((verb, "--help")) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: xsft {verb}")
    assert all(f"{option} " in out for option in ("--help",))


def test_no_page_and_no_message_names_a_verb_that_does_not_exist() -> None:
    files = (*PAGES, *SOURCES)
    named = [(str(file), verb) for file in files for verb in re.findall(r"`xsft ([a-z]+)[ `]", file.read_text())]
    assert [match for match in named if match[1] not in {*VERBS, *HIDDEN, "help"}] == []


def test_every_option_has_a_help_text() -> None:
    verbs = actions_of(parser())
    parsers = [*verbs.items(), *(pair for verb in verbs.values() for pair in actions_of(verb).items())]
    options = [(name, option) for name, sub in parsers for option in sub._actions if option.dest != "action"]
    assert [f"{name} {option.dest}" for name, option in options if not option.help] == []


def test_generated_pages_are_up_to_date() -> None:
    assert runpy.run_path(str(ROOT / "docs" / "generate.py"))["main"](["--check"]) == 0, "run `make docs`"


def test_the_table_of_exit_statuses_lists_the_classes_of_errors() -> None:
    page = (ROOT / "docs" / "reference" / "exit-status.md").read_text()
    rows = {(int(status), name) for status, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)}
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.XsftError)]
    assert {row for row in rows if row[0] != 1} == {(c.exit_status, c.__name__) for c in classes if c.exit_status != 1}
    statuses = {int(status) for status in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    for text in ((ROOT / "README.md").read_text(), parser().format_help()):
        said = {int(status) for status in re.findall(r"(?:^|· |: |\n)(\d+) [a-z]", text.partition("xit status")[2])}
        assert said <= statuses
        assert statuses - said <= {141}


def test_every_key_of_a_workload_has_a_description() -> None:
    root = schema()
    sections = {"": root, **root["$defs"]}
    properties = ((name, key, p) for name, node in sections.items() for key, p in node.get("properties", {}).items())
    silent = [f"{name}.{key}" for name, key, p in properties if not ("description" in p or "$ref" in str(p))]
    assert silent == []


def test_the_workload_in_the_readme_is_valid() -> None:
    (text,) = blocks(ROOT / "README.md", "yaml")
    assert isinstance(read_spec(text), WorkloadSpec)


def test_the_import_in_the_readme_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(("import", "docs/examples/tutorial.md")) == 0
    printed = capsys.readouterr().err.splitlines()
    (excerpt,) = blocks(ROOT / "README.md", "text")
    assert [line for line in excerpt.splitlines() if line != "…" and line not in printed] == []


YAML_BLOCKS = [(str(page.relative_to(ROOT)), text) for page in PAGES for text in blocks(page, "yaml")]


@pytest.mark.parametrize(("page", "text"), YAML_BLOCKS)
def test_every_yaml_block_is_yaml_and_every_workload_valid(page: str, text: str) -> None:
    parsed = yaml.safe_load(text)
    assert parsed, page
    if "name" in parsed and "tpu" in parsed:
        assert isinstance(read_spec(text), WorkloadSpec)


TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
HEADINGS = re.findall(r"^### (.*)$", TROUBLESHOOTING.read_text(), re.MULTILINE)


def test_troubleshooting_finds_problems_by_the_words_of_their_messages() -> None:
    """A quote is a whole clause of a message, `…` for each value, in a module that raises the id behind the quote."""
    quotes = [match for heading in HEADINGS for match in re.findall(r'"([^"]*)"(?: \[`([a-z0-9-]+)`\])?', heading)]
    assert len(quotes) >= 12
    assert [quote for quote, slug in quotes if quote not in clauses(slug)] == []
    assert [slug for slug in re.findall(r"\[`([a-z0-9-]+)`\]", "".join(HEADINGS)) if slug not in ids_in_code()] == []


def test_a_part_of_a_message_is_no_quote_of_it() -> None:
    assert clauses("image-untagged") >= {"… has neither tag nor digest", "Kubernetes uses :latest"}
    assert not {"neither tag nor digest", "is not a key of"} & (clauses("image-untagged") | clauses("unknown-key"))
    assert "… has neither tag nor digest" not in clauses("unknown-key")
    assert "login" not in clauses("")


WITHOUT_ID = {"base/network_words.py", "launch/identity.py"}
"""Modules whose words are part of several problems: the usual network errors, and the refusals of a run's identity."""


@cache
def clauses(slug: str) -> set[str]:
    """Return the clauses of all texts in the modules that raise the id."""
    files = [ROOT / "xsft" / module for module in (ids_in_code()[slug] if slug else WITHOUT_ID)]
    texts = [text for file in files for text in templates(ast.parse(file.read_text(encoding="utf-8")))]
    return {clause.strip(" .;:,") for text in texts for clause in re.split(r"(?<=[.;:,]) ", text)}


def templates(node: ast.AST) -> Iterator[str]:
    """Yield the texts of the code with `…` for each value, without what stands in brackets."""
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        text = re.sub(r"(?<=[.;:,])…+|…+(?=[.;:,])", "", "".join(map(str, parts)))
        yield re.sub("…/…", "…", re.sub(r" \([^)]*\)", "", text))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from templates(child)


def words(page: Path) -> int:
    return len(page.read_text().split())


def test_the_pages_written_by_hand_have_at_most_25_000_words() -> None:
    """Without decisions, and without what `make docs` generates."""
    pages = [ROOT / "README.md", *(page for page in PAGES if page.is_relative_to(ROOT / "docs"))]
    by_hand = [page for page in pages if not re.search("^Generated ", page.read_text(), re.MULTILINE)]
    assert sum(words(page) for page in by_hand if page.parent.name != "decisions") <= 25_000


def test_the_first_hour_is_short() -> None:
    assert words(ROOT / "README.md") <= 1000
    before_the_plan = (ROOT / "docs" / "guides" / "first-run.md").read_text().partition("xsft plan")[0]
    assert len(before_the_plan.split()) <= 600


def test_the_environments_have_the_documented_sizes() -> None:
    page = (ROOT / "docs" / "reference" / "environments.md").read_text()
    for spec in map(environments.environment_for, environments.NAMES):
        assert f"{spec.package} {spec.pins[spec.package]}" in page
        assert f"{len(spec.pins)} packages | about {spec.size_gib} GiB" in page


QUOTED = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+|(?:[A-Z][a-z]+){2,})(?:\(\))?`")
OF_OTHERS = {"kernel_lora_a", "kernel_lora_b", "layers_0", "max_inline_value_bytes", "use_attribute_docstrings"}
"""Names of arrays and of other libraries, which no code here has to write."""


def test_every_quoted_name_exists() -> None:
    """Renamed functions and fields stayed in docstrings: a quoted name is a word of the code or of a packaged file."""
    guides = (page for page in PAGES if page.is_relative_to(ROOT / "docs") and page.parent.name != "decisions")
    names, texts = set(OF_OTHERS), [page.read_text() for page in guides]
    for file in SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        bare = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        nodes = [node for node in bare if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        texts += [str(node.value) for node in nodes]
        code = ast.unparse(_without(tree, nodes))
        names |= {file.stem, *re.findall(r"\w+", code)}
    packaged = (file for kind in ("toml", "json", "yaml", "txt") for file in (ROOT / "xsft").rglob(f"*.{kind}"))
    names |= {word for file in packaged for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
    assert {name for text in texts for name in QUOTED.findall(text)} - names == set()


def _without(tree: ast.AST, constants: list[ast.Constant]) -> ast.AST:
    for node in constants:
        node.value = ""
    return tree
