"""One word, one thing: no two types have one name, and few modules have a function of the same name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TYPE = re.compile(r"^(?:class \w+|(?:\w+: TypeAlias|(?![A-Z\d_]+ = )[A-Z]\w*) = .*(?:\n[ )\]}].*)*)", re.MULTILINE)
"""The beginning of a class, or a whole alias: parsing the modules whole takes ten times as long."""

ALLOWED: Mapping[str, str] = {}
"""Name -> why two types have it."""

NO_NOUN = re.compile(
    r"[A-Z][a-z]+(?:ed|ing)|Made|Seen|Given|Taken|Known|Told|Heard|Held|Kept|Lost|Sent|Spent|Begun|Here|There|After|Look|Wait"
)
"""A type's name of one word that is a participle, an adverb or a verb."""

NOUNS: Mapping[str, str] = {
    "Holding": "what a workload holds of a queue's quota",
    "Owned": "a Workload of Kueue with its owner",
    "Padding": "a setting of tokenizers",
    "Planned": "any of the plans",
    "Recorded": "what a record knows of a run",
    "Refused": "the word of the exit status",
    "Rendering": "the manifest, or the command that renders it",
    "Resumed": "its name is in a published schema",
    "Setting": "one --set",
    "Waiting": "a Workload that waits in a queue",
}
"""Name that NO_NOUN matches -> the thing it names all the same."""

IN_THE_CODE = re.compile(r"^\| [^|]+ \| `(\w+)` \| `([\w.]+)` \|$", re.MULTILINE)
"""A row of the glossary that gives a term its type and module."""

FUNCTION = re.compile(r"^(?:async )?def (\w+)\(", re.MULTILINE)

MODULES_PER_NAME = 2
"""The number of modules that may have a function of one name; what more of them have names no object: `_read`."""

INTERFACES: Mapping[str, str] = {
    "answer": "each program that is asked by JSON answers its question",
    "check": "each subject of checks yields its problems",
    "directory_of": "each stage names the folder of its first attempt",
    "from_json": "each kind of record is read from its file",
    "main": "each program starts there",
    "run": "each verb is run by it",
    "to_json": "each kind of record is written to its file",
}
"""Name of a function -> what the modules that have it implement."""


def doubles(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Name of a class or of an alias, without `_` -> the modules that define it, where they are several."""
    return {name: modules for name, modules in modules_of_types(sources).items() if len(modules) > 1}


def modules_of_types(sources: Mapping[str, str]) -> dict[str, list[str]]:
    modules_by_type: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        types = (text + ": ..." if text.startswith("class ") else text for text in TYPE.findall(source))
        for name in filter(None, map(defined_type, ast.parse("\n".join(types)).body)):
            modules_by_type[name.lstrip("_")].append(module)
    return modules_by_type


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


def shared_functions(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Name of a function outside classes -> the modules that define it, where they are more than MODULES_PER_NAME."""
    modules_by_function: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in dict.fromkeys(FUNCTION.findall(source)):
            modules_by_function[name].append(module)
    return {name: modules for name, modules in modules_by_function.items() if len(modules) > MODULES_PER_NAME}


@pytest.fixture(scope="module")
def sources() -> Mapping[str, str]:
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in (ROOT / "xsft").rglob("*.py")}


def test_few_modules_have_a_function_of_one_name(sources: Mapping[str, str]) -> None:
    modules_by_function = shared_functions(sources)
    assert {name: at for name, at in modules_by_function.items() if name not in INTERFACES} == {}, (
        "name its verb and its object"
    )
    assert INTERFACES.keys() - modules_by_function.keys() == set(), "few modules have it now: remove it from INTERFACES"


def test_the_search_counts_the_modules_of_a_function_and_leaves_methods_alone() -> None:
    source = "def _read(): ...\nasync def ask(): ...\nclass A:\n    def method(self): ..."
    three = {f"{name}.py": source for name in "abc"}
    assert shared_functions(three) == {"_read": [*three], "ask": [*three]}
    assert shared_functions({"a.py": source, "b.py": source, "c.py": "def ask(): ..."}) == {
        "ask": ["a.py", "b.py", "c.py"]
    }
    assert shared_functions({"a.py": source, "b.py": source + "\ndef _read(): ..."}) == {}


def test_no_two_types_have_one_name(sources: Mapping[str, str]) -> None:
    modules_by_type = doubles(sources)
    assert {name: at for name, at in modules_by_type.items() if name not in ALLOWED} == {}, "name what each of them is"
    assert ALLOWED.keys() - modules_by_type.keys() == set(), "no longer a double: remove it from ALLOWED"


def test_the_search_finds_public_and_private_doubles() -> None:
    first, two = "class Run: ...\nclass _Row: ...", "class _Run: ...\nclass _Row: ...\nclass Other: ..."
    assert doubles({"a.py": first, "b.py": two}) == {"Run": ["a.py", "b.py"], "Row": ["a.py", "b.py"]}


def test_no_type_is_named_by_a_participle_or_an_adverb_alone(sources: Mapping[str, str]) -> None:
    modules_by_type = {name: at for name, at in modules_of_types(sources).items() if NO_NOUN.fullmatch(name)}
    assert {name: at for name, at in modules_by_type.items() if name not in NOUNS} == {}, (
        "name the thing: PodList, LogRequest"
    )


def test_every_type_in_the_glossary_is_in_its_module(sources: Mapping[str, str]) -> None:
    named = IN_THE_CODE.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert len(named) >= 40
    modules = modules_of_types(sources)
    missing = {name: module for name, module in named if f"{module.replace('.', '/')}.py" not in modules.get(name, ())}
    assert missing == {}, "correct docs/glossary.md"


def test_the_search_finds_an_alias_that_another_module_has() -> None:
    aliases = "Json = dict[str, Any]\nWhole: TypeAlias = str\nKey = str | int\nSIZES = sizes[0]\nkeys = one | two"
    other = "class Key: ...\nJson = Mapping[str, Any]\nclass Whole: ...\nSIZES = sizes[1]\nkeys = {}"
    assert doubles({"a.py": aliases, "b.py": other}).keys() == {"Json", "Whole", "Key"}
