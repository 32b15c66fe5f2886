"""A launcher, a mode and a trainer are asked through their seam: no other code knows one of them by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from xsft.base.names import ModeName
from xsft.base.targets import targets, trainers

ROOT = Path(__file__).parents[1]
NAMES = {*get_args(ModeName), *targets(), *trainers()}

BY_NAME = {
    "xsft/base/names.py": "the mode of jobs that are not trainings",
    "xsft/base/targets.py": "the registry",
    "xsft/trainer/maxtext.py": "itself",
    "xsft/importing/cluster.py": "xpk's verbs and flags, read as a mode",
    "xsft/importing/xpkline.py": "the program of a pasted line",
    "xsft/verbs/init.py": "a template",
}
"""Module -> what it names, and why it must."""


def test_no_module_knows_a_launcher_a_mode_or_a_trainer_by_its_name() -> None:
    files = sorted((ROOT / "xsft").rglob("*.py"))
    names_by_module = {str(file.relative_to(ROOT)): _named(file.read_text(encoding="utf-8")) for file in files}
    assert {file: names for file, names in names_by_module.items() if names and file not in BY_NAME} == {}


def test_every_exception_names_a_launcher_a_mode_or_a_trainer() -> None:
    assert [file for file in BY_NAME if not _named((ROOT / file).read_text(encoding="utf-8"))] == []


def test_the_scan_sees_comparisons_choices_arguments_and_lists() -> None:
    sources = {
        'x = target == "xpk"': ["xpk"],
        'x = mode in ("mcjax", "pathways")': ["mcjax", "pathways"],
        'SECTIONS = ("data", "pathways")': [],
        'x = "mcjax" if y else "pathways"': ["mcjax", "pathways"],
        'mode_rules("pathways").KEYS': ["pathways"],
        'limit(mode="mcjax")': ["mcjax"],
        'MODES = ("mcjax", "pathways")': ["mcjax", "pathways"],
        'mode: str = "mcjax"': ["mcjax"],
        'match mode:\n    case "mcjax":\n        pass\n': [],
        'tree["pathways"] = 1': [],
        'error("pathways-image", "pathways", "")': [],
    }
    assert {source: sorted(_named(source)) for source in sources} == sources


ASKED = frozenset({"mode_rules", "launcher_of", "trainer_named", "on_cluster", "on_this_machine", "single_controller"})
"""Functions whose first argument is the name of a mode, a launcher or a trainer."""


def _named(source: str) -> list[str]:
    """Names that decide something: compared, chosen, listed with others, or given as what is asked."""
    return [name for node in ast.walk(ast.parse(source)) for name in _deciding(node)]


def _deciding(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, comparators=others):
            yield from _constants([left, *others])
        case ast.IfExp(body=body, orelse=orelse):
            yield from _constants([body, orelse])
        case ast.Call(func=ast.Name(id=function), args=[first, *_]) if function in ASKED:
            yield from _constants([first])
        case ast.keyword(arg="mode" | "target" | "trainer", value=value):
            yield from _constants([value])
        case ast.Assign(value=value):
            yield from _constants([value])
        case ast.AnnAssign(value=ast.expr() as value):
            yield from _constants([value])


def _constants(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if text in NAMES:
                yield text
            case ast.Tuple(elts=items) if all(
                isinstance(element, ast.Constant) and element.value in NAMES for element in items
            ):
                yield from _constants(items)
