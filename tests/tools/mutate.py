"""Change modules one expression at a time, and list the changes that no test notices.

    python -m tests.tools.mutate xsft/records/document.py --tests tests/records
    python -m tests.tools.mutate --only 12,40 xsft/records/document.py --tests tests/records/test_document.py

The tests are collected once and run once, traced by line. Each change in the body of a function is then made in a fork
of that process, which runs the tests that reach its statement, until the first failure. A change outside of bodies, or
in a body that already runs while the tests are imported, needs another import: a fork that has only the libraries
loaded runs the tests that reach the module or name it. Processes that a test starts read the module as it is.

Exit status: 0 if every change was noticed, 1 if not.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import importlib.abc
import importlib.machinery
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings

from tests.run import NO_TOOLS

T = TypeVar("T")
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
LEAST_TIMEOUT_S, IMPORTS_S, MOST_S = 5, 20, 36_000

Function = tuple[str, int]
"""Its qualified name and first line, as of a code object."""
Place = tuple[str, str, int]
"""The same, after the name of the file."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: which node of the module, in the order of `ast.walk`, becomes what."""

    file: Path
    number: int
    """Among those of its file, by line."""
    line: int
    at: int
    what: str
    node: ast.AST
    function: Function | None
    """The outermost function in whose body it stands."""
    lines: range
    """Of its statement, without the statements inside."""

    def tree(self, source: str) -> ast.Module:
        """Return the module with this change."""
        return _Replace(at=self.at, by=self.node).module(ast.parse(source))


def mutants(source: str, file: Path = Path("module.py")) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    skipped, functions, lines = _skipped(tree), _functions(tree), _lines(tree)
    found = []
    for at, node in enumerate(ast.walk(tree)):
        if id(node) in skipped or not hasattr(node, "lineno"):
            continue
        for what, changed in _changes(node):
            place = (functions.get(id(node)), lines[id(node)])
            found.append((node.lineno, at, what, ast.copy_location(changed, node), *place))
    for number, (line, at, what, by, inside, within) in enumerate(sorted(found, key=lambda one: one[:2])):
        yield Mutant(file=file, number=number, line=line, at=at, what=what, node=by, function=inside, lines=within)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    text = ast.unparse(node)
    for changed in _others(node):
        after = ast.unparse(changed)
        same = next((at for at, (one, other) in enumerate(zip(text, after, strict=False)) if one != other), 0)
        skipped = max(0, same - 60)
        yield f"{text[skipped:][:90]}  ->  {after[skipped:][:90]}", changed


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
    """Docstrings and annotations, which no test reads, the words of messages, and what tests/test_frozen.py holds of
    all types.
    """
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node.value]
        elif isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list, *(one for one in node.keywords if one.arg in ("frozen", "kw_only"))]
        elif isinstance(node, ast.JoinedStr):
            parts = [value for value in node.values if isinstance(value, ast.Constant)]
        elif isinstance(node, ast.Constant) and " " in str(node.value).strip():
            parts = [node]
        found |= {id(inner) for part in parts if part for inner in ast.walk(part)}
    return found


def _functions(tree: ast.AST, prefix: str = "") -> dict[int, Function]:
    """The outermost function of each node that stands in a body."""
    found: dict[int, Function] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
            inside = (inner for part in node.body for inner in ast.walk(part))
            found |= dict.fromkeys(map(id, inside), (f"{prefix}{node.name}", first))
        else:
            found |= _functions(node, f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix)
    return found


def _lines(tree: ast.AST) -> dict[int, range]:
    """The lines of each node's statement."""
    found: dict[int, range] = {}
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else getattr(node, "end_lineno", first)
            found |= dict.fromkeys(map(id, ast.walk(node)), range(first, max(first, last) + 1))
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


@dataclass(frozen=True, kw_only=True)
class Reached:
    """The lines of files that each test reaches, and how long each test takes."""

    tests: dict[tuple[Path, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    """Without any change."""
    unsure: set[tuple[Path, int]] = field(default_factory=set)
    """The files and numbers of mutants that survived, and whose lines also run while the tests are imported."""

    def of(self, file: Path, lines: range | None = None) -> list[str]:
        """Return the tests that reach one of the lines, or any line of the file: the quickest first, but those of its
        own test file before others that take up to ten times less.
        """
        found = [tests for (path, line), tests in self.tests.items() if path == file and (not lines or line in lines)]
        own = f"/test_{file.stem}.py::"
        tests = set[str]().union(*found) - self.failed
        return sorted(tests, key=lambda test: self.seconds[test] / (10 if own in f"/{test}" else 1))

    def first(self, tests: list[str], *, within_s: float) -> list[str]:
        """Return the first tests that together take no longer, and at least one."""
        ends = list(accumulate(self.seconds[test] for test in tests))
        return tests[: max(1, bisect(ends, within_s))]

    def about(self, file: Path) -> list[str]:
        """Return the tests that reach a module, or name it in their id or file."""
        naming = _naming(file)
        files = {test.partition("::")[0] for test in self.seconds}
        texts = {name for name in files if naming.search(Path(name).read_text(encoding="utf-8"))}
        named = [test for test in self.seconds if naming.search(test) or test.partition("::")[0] in texts]
        return [test for test in dict.fromkeys((*named, *self.of(file))) if test not in self.failed]

    def timeout_s(self, tests: list[str]) -> float:
        return LEAST_TIMEOUT_S + 2 * sum(self.seconds[test] for test in tests)


@dataclass(kw_only=True)
class Driver:
    """A plugin of pytest: runs the collected tests once, and then for each mutant those that reach it."""

    mutants: list[Mutant]
    """In bodies of functions."""
    files: dict[str, Path]
    """The modules, by what the interpreter calls their files."""
    within_s: float
    tell: Callable[[Mutant], None]
    """Called with each that no test notices."""
    reached: Reached | None = None
    imported: set[tuple[Path, int]] = field(default_factory=set)
    """The lines that run while the tests are collected."""

    def pytest_collection(self) -> None:
        _trace_lines(self.files, lambda *line: self.imported.add(line))

    def pytest_collection_finish(self) -> None:
        threading.settrace(None)
        sys.settrace(None)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's."""
        reached = self.reached = forked(partial(_trace, session, self.files), timeout_s=MOST_S) or Reached()
        live, items = _live_functions(self.files), {item.nodeid: item for item in session.items}
        for mutant in self.mutants:
            tests = reached.first(reached.of(mutant.file, mutant.lines), within_s=self.within_s)
            passes = partial(_passes, session, [items[test] for test in tests], mutant=mutant, live=live)
            if not forked(passes, timeout_s=reached.timeout_s(tests)):
                continue
            if any((mutant.file, line) in self.imported for line in mutant.lines):
                reached.unsure.add((mutant.file, mutant.number))
            else:
                self.tell(mutant)
        return True


def _trace(session: pytest.Session, files: dict[str, Path]) -> Reached:
    reached, running = Reached(), ""
    _trace_lines(files, lambda *line: reached.tests[line].add(running))
    for item, following in _followed(session.items):
        running, began = item.nodeid, time.monotonic()
        if _fails(session, item, following):
            reached.failed.add(running)
        reached.seconds[running] = time.monotonic() - began
    sys.settrace(None)
    return reached


def _trace_lines(files: dict[str, Path], tell: Callable[[Path, int], None]) -> None:
    """Call `tell` for each line of the files that runs, in any thread."""

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        return line if frame.f_code.co_filename in files else None

    def line(frame: FrameType, _event: str, _argument: object) -> Any:
        tell(files[frame.f_code.co_filename], frame.f_lineno)
        return line

    threading.settrace(enter)
    sys.settrace(enter)


def _passes(
    session: pytest.Session, items: list[pytest.Item], *, mutant: Mutant, live: dict[Place, list[FunctionType]]
) -> bool:
    source = mutant.file.read_text(encoding="utf-8")
    code = compile(mutant.tree(source), str(mutant.file.resolve()), "exec")
    [changed] = (inner for inner in _code_objects(code) if _place(inner)[1:] == mutant.function)
    for function in live[_place(changed)]:
        function.__code__ = changed
    return not any(_fails(session, item, following) for item, following in _followed(items))


def _followed(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each item with the next one, whose fixtures of a wider scope are kept."""
    yield from zip(items, [*items[1:], None], strict=True)


def _fails(session: pytest.Session, item: pytest.Item, following: pytest.Item | None) -> bool:
    before = session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return session.testsfailed > before


def _live_functions(files: dict[str, Path]) -> dict[Place, list[FunctionType]]:
    gc.unfreeze()  # what tests/conftest.py hid from `get_objects`
    found: dict[Place, list[FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in files:
            found[_place(one.__code__)].append(one)
    return found


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _code_objects(inner)


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A plugin of pytest: runs these tests, in their order."""

    tests: list[str]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self.tests if test in found]


def _naming(file: Path) -> re.Pattern[str]:
    """Return what names a module in the text of a test file, or in the id of a test."""
    parent, _, name = _module_name(file).rpartition(".")
    return re.compile(rf"\b{re.escape(parent)}( import .*\b|\.){name}\b" if parent else rf"\b{name}\b")


def _module_name(file: Path) -> str:
    return ".".join(file.with_suffix("").parts)


def forked(work: Callable[[], T], *, timeout_s: float) -> T | None:
    """Return what `work` returns in a fork of this process, or None if it raises or takes longer."""
    with tempfile.TemporaryFile() as result:
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(round(timeout_s))
                os.setpgid(0, 0)
                pickle.dump(work(), result)
                result.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what its tests had started
        result.seek(0)
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            found: T = pickle.load(result)
            return found
    return None


def _passes_imported(mutant: Mutant, tests: list[str]) -> bool:
    tree = mutant.tree(mutant.file.read_text(encoding="utf-8"))
    sys.meta_path.insert(0, _Mutated(name=_module_name(mutant.file), file=mutant.file, tree=tree))
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return _run_pytest(Chosen(tests=tests), [*files]) in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


def _run_pytest(plugin: object, tests: list[str]) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # hypothesis is, before pytest could rewrite it
    options = ("-x", "-q", "-p", "no:cacheprovider", "-W", loaded, "-m", NO_TOOLS)
    return int(pytest.main([*options, *tests], plugins=[plugin]))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="numbers of mutants, as they were listed")
    parser.add_argument("--within", type=float, default=20, help="s, of the tests of one mutant")
    parser.add_argument("modules", nargs="+", type=Path, help="the files to change, from the repository's root")
    parser.add_argument("--tests", nargs="+", required=True, help="test files or folders")
    args = parser.parse_args(arguments)
    only = {int(number) for number in args.only.split(",") if number}
    found = [one for file in args.modules for one in mutants(file.read_text(encoding="utf-8"), file)]
    chosen = [one for one in found if not only or one.number in only]
    with (
        tempfile.TemporaryFile("w+") as survivors,
        os.fdopen(os.dup(1), "w") as out,
        tempfile.TemporaryDirectory() as folder,
    ):

        def tell(mutant: Mutant) -> None:
            for file in (out, survivors):
                print(f"{mutant.number}: {mutant.file}:{mutant.line}: {mutant.what}", file=file, flush=True)

        os.environ["HOME"] = folder  # a mutant may forget the folder of its test
        _load_libraries()
        reached = forked(partial(_drive, chosen, args, tell), timeout_s=MOST_S)
        if not reached or reached.failed >= reached.seconds.keys():
            print(f"no test passes without a change: {' '.join(args.tests)}", file=sys.stderr)
            return 2
        for test in reached.failed:
            print(f"{test} is left out: it fails without a change", file=sys.stderr)
        for mutant in chosen:
            if mutant.function and (mutant.file, mutant.number) not in reached.unsure:
                continue
            tests = reached.first(reached.about(mutant.file), within_s=args.within)
            passes = partial(_passes_imported, mutant, tests)
            if forked(passes, timeout_s=IMPORTS_S + reached.timeout_s(tests)):
                tell(mutant)
        survivors.seek(0)
        survived = Counter(line.split(":")[1].strip() for line in survivors)
        for file in args.modules:
            tried = sum(one.file == file for one in chosen)
            print(f"{file}: {survived[str(file)]} of {tried} mutants survived", file=out, flush=True)
    return 1 if survived else 0


def _load_libraries() -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", database=None, derandomize=True, phases=phases)
    settings.load_profile("mutants")  # the profiles of tests/conftest.py stand on it


def _drive(mutants: list[Mutant], args: argparse.Namespace, tell: Callable[[Mutant], None]) -> Reached | None:
    files = {str(file.resolve()): file for file in args.modules}
    driver = Driver(mutants=[one for one in mutants if one.function], files=files, within_s=args.within, tell=tell)
    _run_pytest(driver, args.tests)
    return driver.reached


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
