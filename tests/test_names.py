"""One word, one thing: a type has one name in the package, and no other type has it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]

DOCUMENTS = "xsft/commands/interface_"
"""Modules of the types of --json, each named as what it shows; they do not count."""

TYPE = re.compile(r"^(?:class \w+|(?:\w+: TypeAlias|(?![A-Z\d_]+ = )[A-Z]\w*) = .*(?:\n[ )\]}].*)*)", re.MULTILINE)
"""The beginning of a class, or a whole alias: parsing the modules whole takes ten times as long."""

ALLOWED: Mapping[str, str] = {}
"""Name -> why two types have it."""


def doubles(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Name of a class or of an alias -> the modules that define it, where they are several."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        if not module.startswith(DOCUMENTS):
            types = (text + ": ..." if text.startswith("class ") else text for text in TYPE.findall(source))
            for name in filter(None, map(defined_type, ast.parse("\n".join(types)).body)):
                found[name].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def defined_type(node: ast.stmt) -> str | None:
    """Return the name if the statement is a class or `Name = dict[...]`, `Name = A | B`, `Name: TypeAlias = ...`."""
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp(op=ast.BitOr())):
            return name if name[0].isupper() and not name.isupper() else None
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
            return name
    return None


def test_no_two_types_have_one_name() -> None:
    sources = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in (ROOT / "xsft").rglob("*.py")}
    found = doubles(sources)
    assert {name: at for name, at in found.items() if name not in ALLOWED} == {}, "name what each of them is"
    assert ALLOWED.keys() - found.keys() == set(), "no longer a double: remove it from ALLOWED"


def test_the_search_finds_public_and_private_doubles_and_leaves_documents_alone() -> None:
    one, two = "class Run: ...\nclass _Row: ...", "class Run: ...\nclass _Row: ...\nclass Other: ..."
    assert doubles({"a.py": one, "b.py": two}) == {"Run": ["a.py", "b.py"], "_Row": ["a.py", "b.py"]}
    assert doubles({"a.py": one, "xsft/commands/interface_runs.py": two}) == {}


def test_the_search_finds_an_alias_that_another_module_has() -> None:
    aliases = "Json = dict[str, Any]\nWhole: TypeAlias = str\nKey = str | int\nSIZES = sizes[0]\nkeys = one | two"
    other = "class Key: ...\nJson = Mapping[str, Any]\nclass Whole: ...\nSIZES = sizes[1]\nkeys = {}"
    assert doubles({"a.py": aliases, "b.py": other}).keys() == {"Json", "Whole", "Key"}
