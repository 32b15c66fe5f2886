"""Change a module one expression at a time, and list the changes that its tests do not notice.

    python -m tests.tools.mutate xsft/records/document.py tests/records/test_document.py
    python -m tests.tools.mutate --only 12,40 xsft/records/document.py tests/records/test_document.py

Each mutant is a fork that has the libraries loaded, so it costs its tests and little more. Processes that a test starts
read the module as it is. Exit status: 0 when every mutant was noticed, 1 when some survived.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.abc
import importlib.machinery
import io
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LIBRARIES = ("google.cloud.storage", "hypothesis", "msgspec", "pydantic", "requests", "urllib3", "yaml")
"""Loaded once, before the forks."""
OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}
LEAST_TIMEOUT_S = 20


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: which node of the module, in the order of `ast.walk`, becomes what."""

    line: int
    at: int
    what: str
    node: ast.AST

    def tree(self, source: str) -> ast.Module:
        """The module with this change."""
        return _Replace(at=self.at, by=self.node).module(ast.parse(source))


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    skipped = _skipped(tree)
    found = []
    for at, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        for what, changed in _changes(node):
            found.append(Mutant(line=node.lineno, at=at, what=what, node=ast.copy_location(changed, node)))
    yield from sorted(found, key=lambda one: (one.line, one.at))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    text = ast.unparse(node)[:90]
    yield from ((f"{text}  ->  {ast.unparse(changed)[:90]}", changed) for changed in _others(node))


def _others(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITE:
            yield ast.Compare(node.left, [_opposite(op)], node.comparators)
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OPPOSITE:
            changed = copy.copy(node)
            changed.op = _opposite(op)
            yield changed
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Constant(value=bool() | int() | str() as value) if value != "":
            yield ast.Constant(_another(value))
        case ast.Call(keywords=keywords):
            yield from (ast.Call(node.func, node.args, _without(keywords, i)) for i in range(len(keywords)))
        case ast.Dict(keys=keys, values=values):
            yield from (ast.Dict(_without(keys, i), _without(values, i)) for i in range(len(keys)))
        case _:
            yield from _other_statements(node)


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Return(value=ast.Constant(value=None)):
            return
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            yield ast.Pass()
        case _:
            return


def _without(parts: list[Any], at: int) -> list[Any]:
    return parts[:at] + parts[at + 1 :]


def _opposite(op: ast.AST) -> Any:
    return OPPOSITE[type(op)]()


def _another(value: bool | int | str) -> bool | int | str:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}~"


def _skipped(tree: ast.AST) -> set[int]:
    """Docstrings and annotations, which no test reads, and the words of messages."""
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node.value]
        elif isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.JoinedStr):
            parts = [value for value in node.values if isinstance(value, ast.Constant)]
        elif isinstance(node, ast.Constant) and " " in str(node.value).strip():
            parts = [node]
        found |= {id(inner) for part in parts if part for inner in ast.walk(part)}
    return found


class _Replace(ast.NodeTransformer):
    def __init__(self, *, at: int, by: ast.AST) -> None:
        self.at, self.by = at, by

    def module(self, tree: ast.Module) -> ast.Module:
        self.target = next(node for number, node in enumerate(ast.walk(tree)) if number == self.at)
        changed = self.visit(tree)
        assert isinstance(changed, ast.Module)
        return ast.fix_missing_locations(changed)

    def visit(self, node: ast.AST) -> Any:
        return self.by if node is self.target else self.generic_visit(node)


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads the changed tree where the module is imported."""

    def __init__(self, *, name: str, file: Path, tree: ast.Module) -> None:
        self.name, self.file, self.tree = name, file, tree

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(self.file))
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, str(self.file), "exec"), module.__dict__)


def noticed(file: Path, tree: ast.Module, tests: list[str], *, timeout_s: float) -> bool:
    """Return whether the tests fail with that module. A mutant that hangs is noticed."""
    child = os.fork()
    if child == 0:
        signal.alarm(round(timeout_s))
        os.setpgid(0, 0)
        sys.meta_path.insert(0, _Mutated(name=".".join(file.with_suffix("").parts), file=file, tree=tree))
        os._exit(_run(tests))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests had started
    return os.waitstatus_to_exitcode(status) != 0


def _run(tests: list[str]) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = "ignore::pytest.PytestAssertRewriteWarning"  # hypothesis is, before pytest could rewrite it
        markers = "not contract and not maxtext and not cluster and not engine and not trainer"
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", loaded, "-m", markers, *tests]))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="numbers of mutants, as they were listed")
    parser.add_argument("module", type=Path, help="the file to change, from the repository's root")
    parser.add_argument("tests", nargs="+", help="test files")
    args = parser.parse_args(arguments)
    for library in LIBRARIES:
        importlib.import_module(library)
    source = args.module.read_text(encoding="utf-8")
    began = time.monotonic()
    if noticed(args.module, ast.parse(source), args.tests, timeout_s=600):
        print(f"the tests fail without a change: {' '.join(args.tests)}", file=sys.stderr)
        return 2
    timeout_s = max(LEAST_TIMEOUT_S, 5 * (time.monotonic() - began))
    only = {int(number) for number in args.only.split(",") if number}
    chosen = [(number, one) for number, one in enumerate(mutants(source)) if not only or number in only]
    survived = 0
    for number, one in chosen:
        if not noticed(args.module, one.tree(source), args.tests, timeout_s=timeout_s):
            survived += 1
            print(f"{number}: {args.module}:{one.line}: {one.what}", flush=True)
    print(f"{args.module}: {survived} of {len(chosen)} mutants survived", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
