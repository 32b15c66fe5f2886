"""docs/checks.md and the code name the same problems, and every trap's row names problems that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.checks.idscan import ids_in, ids_in_code

DOCS = Path(__file__).parents[2] / "docs" / "checks.md"
ROW = re.compile(r"^\| `([a-z0-9*-]+)` \| ([a-z, ]+) \|", re.MULTILINE)
MENTION = re.compile(r"check `([a-z0-9*-]+)`")


def documented() -> list[str]:
    return [match[1] for match in ROW.finditer(DOCS.read_text(encoding="utf-8"))]


def test_every_problem_in_the_code_is_documented():
    rows = set(documented())
    undocumented = {name: sorted(at) for name, at in ids_in_code().items() if name not in rows}
    assert undocumented == {}, "add a row to docs/checks.md"


def test_every_documented_problem_is_in_the_code():
    assert sorted(set(documented()) - ids_in_code().keys()) == [], "remove the row from docs/checks.md"


def test_each_id_has_one_row_with_known_severities():
    text = DOCS.read_text(encoding="utf-8")
    assert len(documented()) == len(set(documented()))
    assert {s for match in ROW.finditer(text) for s in match[2].split(", ")} == {"error", "warning", "note"}


def test_traps_name_only_checks_that_exist():
    traps = DOCS.read_text(encoding="utf-8").partition("## Traps")[2]
    mentioned = set(MENTION.findall(traps))
    assert len(mentioned) > 50
    assert mentioned <= set(documented())


def test_every_trap_says_where_it_is_caught():
    traps = DOCS.read_text(encoding="utf-8").partition("## Traps")[2]
    rows = [line for line in traps.splitlines() if line.startswith("| ") and not line.startswith("| trap")]
    assert len(rows) > 90
    assert [row for row in rows if len(row.split(" | ")) != 2 or not row.split(" | ")[1].strip(" |")] == []


def test_the_scan_sees_literals_choices_patterns_tables_and_classes():
    source = (
        'error("a", "", "", "")\nwarning("b" if x else "c", "", "", "")\nnote(f"d-{x}", "", "")\n'
        'Refusal(id="e")\nclass E:\n    id: str = "f"\nerror(kind, "", "", "")\n'
        'def refuse(self, id, at):\n    error(id, at, "", "")\ndef stop(self, id):\n    self.refuse(id, 1)\n'
        'here.refuse("g", 1)\nstop("h")\nREFUSED: Refusals = {"key": ("i", "why")}\n'
    )
    assert sorted(ids_in(ast.parse(source))) == ["a", "b", "c", "d-*", "e", "f", "g", "h", "i"]
