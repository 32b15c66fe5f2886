"""A problem carries what it decides: no code asks by its id which problem it is, or keeps a set of ids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from tests.checks.idscan import ids_in_code
from xsft.checks.data import LATE_IDS
from xsft.records.record import Outcome
from xsft.runs.cause_rule import BY_SLUG
from xsft.runs.causes import log_rules
from xsft.runs.rows import Worthless
from xsft.workers.row_shape import RowProblem

_ID = re.compile(r"\.(problem_)?id\b")
_HYPHENATED = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')
ROOT = Path(__file__).parents[1]
FAILURES = {rule.id for rule in log_rules()}
REASONS = frozenset(name for name in BY_SLUG if "-" in name) - {*get_args(Outcome)}
"""Reasons of a state: (state, reason) pairs are usual, but no set or table of them decides anything."""

IDS = frozenset(name for name in {*ids_in_code(), *FAILURES} if "-" in name) - REASONS
"""Ids of problems, and kinds of a process's failure. One of a single word may mean anything; only `.id` shows it."""

NOT_DECIDING = {
    "xsft/importing/gcluster.py": ["grace-period"],  # a flag of gcluster
    "xsft/image/context.py": ["disk-full", "image-context-large"],  # the choices of an option
    "xsft/checks/data.py": sorted(LATE_IDS),  # those that an answer may still bring
    "xsft/data/refusals.py": ["FIXES", *sorted(get_args(RowProblem))],  # the words of each fix
    "xsft/runs/clues.py": sorted(get_args(Worthless)),  # the line that shows each reason
    "xsft/verbs/doctor.py": [":", "PLACES_FILE"],  # names of what was checked: a place, its file
    "xsft/runs/rows.py": ["Worthless"],  # the predicate of these reasons, where they are defined
}
"""Module -> ids that it lists, to read what a user wrote or to find words."""


def test_no_module_decides_by_the_id_of_a_problem() -> None:
    files = sorted((ROOT / "xsft").rglob("*.py"))
    ids_by_module = {str(file.relative_to(ROOT)): _found(file.read_text(encoding="utf-8")) for file in files}
    assert {file: names for file, names in ids_by_module.items() if names} == NOT_DECIDING


def test_the_scan_sees_comparisons_tables_and_sets() -> None:
    sources = {
        'x = problem.id == "usage"': ["usage"],
        'x = error.problem_id in ("usage", "spec")': ["spec", "usage"],
        "x = problem.id in FATAL": ["FATAL"],
        "x = any(p.id in checks.FATAL for p in found)": ["FATAL"],
        "x = FITS[problem.id]": ["FITS"],
        'x = FITS.get(problem.id, "no")': ["FITS"],
        'x = problem.id.startswith("fit-")': ["startswith"],
        'match problem.id:\n    case "usage":\n        pass\n': ["match"],
        'name = problem.id\nx = name == "unknown-key"': ["unknown-key"],
        'x = getattr(problem, "id") in {"unknown-key"}': ["unknown-key"],
        'match kind:\n    case "peer-lost" | "hbm":\n        pass\n': ["peer-lost"],
        'FATAL = frozenset({"unknown-key", "missing-key"})': ["missing-key", "unknown-key"],
        'FATAL = ("unknown-key",)': ["unknown-key"],
        'FITS = {"fit-known": "yes", "unknown": "no"}': ["fit-known"],
        'NO_JOBS = frozenset({"broken-spec", "no-jobs"})': ["broken-spec", "no-jobs"],
        'Fatal = Literal["fit-known"]\nFATAL = frozenset(get_args(Fatal))': ["Fatal"],
        'Fatal = Literal["unknown-key", "missing-key"]': [],
        'error("unknown-key", "", "", "")': [],
        'x = ("starting", "no-jobs")': [],
        "x = problem.id in reasons and reasons[problem.id]": [],
        'x = problem.severity == "error" and problem.kind in ("absent", "unmade")': [],
    }
    assert {source: _found(source) for source in sources} == sources


def _found(source: str) -> list[str]:
    """Return the ids, and what else stands for them, by which the source decides."""
    if not _ID.search(source) and not {*_HYPHENATED.findall(source)} & (IDS | REASONS):
        return []  # parsing takes most of the time
    ids: set[str] = set()
    types: set[str] = set()
    read: set[str] = set()
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Assign) and _is_type(node.value):
            types |= {ast.unparse(target) for target in node.targets if _strings(node.value, IDS | REASONS)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "get_args":
            read |= {ast.unparse(argument) for argument in node.args}
        if not _is_type(node):
            ids |= {*_by_id(node), *_listed(node)}
            nodes += ast.iter_child_nodes(node)
    return sorted(ids | (types & read))


def _by_id(node: ast.AST) -> Iterator[str]:
    """Yield what the id of an object is compared with or looked up in."""
    match node:
        case ast.Compare(left=left, comparators=others) if any(map(_is_id, (left, *others))):
            for other in (left, *others):
                yield from (*_texts(other), *_constant(other))
        case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[key, *_]) if _is_id(key):
            yield from _constant(value)
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if _is_id(value):
            yield method
        case ast.Subscript(value=value, slice=key) if _is_id(key):
            yield from _constant(value)
        case ast.Match(subject=subject) if _is_id(subject):
            yield "match"


def _listed(node: ast.AST) -> Iterator[str]:
    """Yield the ids that are compared with anything, or listed."""
    match node:
        case ast.Compare(left=left, comparators=others):
            for other in (left, *others):
                yield from _strings(other, IDS)
        case ast.MatchValue(value=value):
            yield from _strings(value, IDS)
        case ast.Set(elts=items):
            yield from (text for item in items for text in _texts(item) if text in IDS | REASONS)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            yield from (text for item in items for text in _texts(item) if text in IDS)
        case ast.Dict(keys=keys):
            yield from (text for key in keys if key for text in _texts(key) if text in IDS | REASONS)


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"


def _is_id(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("id", "problem_id")


def _constant(node: ast.AST) -> Iterator[str]:
    """Yield the name of a constant."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if name.isupper():
        yield name


def _texts(node: ast.AST) -> list[str]:
    """Return a literal text, or those of a literal collection."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Set(elts=items) | ast.Tuple(elts=items) | ast.List(elts=items):
            return [text for item in items for text in _texts(item)]
        case _:
            return []


def _strings(node: ast.AST, names: frozenset[str]) -> list[str]:
    return [
        node_of_text.value
        for node_of_text in ast.walk(node)
        if isinstance(node_of_text, ast.Constant) and node_of_text.value in names
    ]
