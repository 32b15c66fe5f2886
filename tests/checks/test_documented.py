"""docs/checks.toml and the code list the same problems, and rows of traps.md name existing problems."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import get_args

from tests.checks.idscan import PACKAGE, ids_in, ids_in_code, late_calls
from xsft.runs.cause_rule import BY_SLUG
from xsft.workers.row_shape import RowProblem

DOCS = Path(__file__).parents[2] / "docs" / "checks.toml"
SECTIONS = tomllib.loads(DOCS.read_text(encoding="utf-8"))["section"][:-1]
"""Without the last one: the ids that no check raises any more."""
TRAPS = Path(__file__).with_name("traps.md")
BY_OPTION = {"disk-full", "image-context-large"}
"""Errors that `--accept` accepts, because no workload is read."""
ROW_PROBLEMS = frozenset(get_args(RowProblem)) - {"data-no-target"}
"""Errors of single rows; `data-no-target` is judged over all of them."""
MENTION = re.compile(r"check `([a-z0-9*-]+)`")


def documented() -> list[str]:
    return [name for section in SECTIONS for name in section["ids"]]


def test_every_problem_in_the_code_is_documented():
    rows = set(documented())
    undocumented = {name: sorted(paths) for name, paths in ids_in_code().items() if name not in rows}
    assert undocumented == {}, "add a line to docs/checks.toml, and run `make docs`"


def test_every_documented_problem_is_in_the_code():
    ids = {*ids_in_code(), *BY_SLUG}  # `compare` warns by the reason of a run's state
    assert sorted(set(documented()) - ids) == [], "remove the line from docs/checks.toml"


def test_each_id_has_one_line_with_known_severities():
    assert len(documented()) == len(set(documented()))
    severities = {kind for section in SECTIONS for kind, _ in section["ids"].values()}
    assert {word for kind in severities for word in kind.split(", ")} == {"error", "warning", "note", "may be accepted"}


def test_lines_say_which_errors_may_be_accepted():
    lines = [(name, f"{kind} {text}") for section in SECTIONS for name, (kind, text) in section["ids"].items()]
    names = {name for name, line in lines if "may be accepted" in line}
    assert disputable_ids() == names | BY_OPTION


def test_every_id_has_a_link_target():
    """`docs/checks.md#ID` leads to the row of each problem that the code raises."""
    page = DOCS.with_suffix(".md").read_text(encoding="utf-8")
    assert [name for name in ids_in_code() if f'<a id="{name}"></a>' not in page] == []


def disputable_ids() -> set[str]:
    """Return the ids of the errors that a workload may accept."""
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    trees = [ast.parse(text) for text in texts if "disputable" in text or ".error(" in text]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    kinds = [
        (call, [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "kind"]) for call in calls
    ]
    late = {name for tree in trees for name, method in late_calls(tree) if method == "error"}
    firsts = [call.args[0] for call, kind in kinds if kind == ["'disputable'"]]
    written = {keyword.value for keyword in firsts if isinstance(keyword, ast.Constant)}
    return {*map(str, written), *late, *ROW_PROBLEMS}


def test_traps_name_only_checks_that_exist():
    traps = TRAPS.read_text(encoding="utf-8")
    mentioned = set(MENTION.findall(traps))
    assert len(mentioned) > 50
    assert mentioned <= set(documented())


def test_every_trap_row_names_where_it_is_caught():
    traps = TRAPS.read_text(encoding="utf-8")
    rows = [line for line in traps.splitlines() if line.startswith("| ") and not line.startswith("| trap")]
    assert len(rows) > 90
    assert [row for row in rows if len(row.split(" | ")) != 2 or not row.split(" | ")[1].strip(" |")] == []


def test_ids_in_finds_literals_choices_patterns_tables_and_classes():
    source = (
        'error("a", "", "", "")\nwarning("b" if x else "c", "", "", "")\nnote(f"d-{x}", "", "")\n'
        'Refusal(id="e")\nclass E:\n    id: str = "f"\nerror(kind, "", "", "")\n'
        'def refuse(self, id, at):\n    error(id, at, "", "")\ndef stop(self, id):\n    self.refuse(id, 1)\n'
        'here.refuse("g", 1)\nstop("h")\nREFUSED: Refusals = {"key": ("i", "why")}\n'
    )
    assert sorted(ids_in(ast.parse(source))) == ["a", "b", "c", "d-*", "e", "f", "g", "h", "i"]
