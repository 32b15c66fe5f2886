"""Finds the ids of problems that the code can raise: in `error`, `warning`, `note`, tables and error classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "xsft"
MAKERS = frozenset({"error", "warning", "note"})
ERRORS = frozenset(
    {
        "UsageError",
        "EnvironmentMissing",
        "Refused",
        "Unreachable",
        "RunFailed",
        "TimedOut",
        "Unknown",
        "LostAnswer",
        "ClusterMissing",
    }
)
TABLES = frozenset(
    {"FailureRule", "EnvHabit", "UnsupportedKey", "Refusal", "ShapeFault", "Problem", "LateProblem", *ERRORS}
)

_CALLED = "|".join((*MAKERS, *TABLES, "PydanticCustomError"))
MENTIONS = re.compile(rf"\b(?:{_CALLED})\(|\bRefusals\b|^    id(?:: str)? = ", re.MULTILINE)
"""In the text of every module that has an id: parsing the others takes twice as long."""


@cache
def ids_in_code(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Id -> the modules that raise it, as paths below the package."""
    places: dict[str, set[str]] = {}
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    for path in (path for path, text in texts.items() if MENTIONS.search(text)):
        for name in ids_in(ast.parse(texts[path])):
            places.setdefault(name, set()).add(str(path.relative_to(package)))
    return places


@cache
def late_problems(package: Path = PACKAGE) -> dict[str, str]:
    """Constant -> id of each declaration of a late problem, at the top of a module of checks or of dry runs."""
    files = (*(package / "checks").glob("*.py"), package / "cluster" / "dry_run_problems.py")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    lines = [line for tree in trees for line in tree.body if isinstance(line, ast.Assign)]
    calls = [(line.targets[0], line.value) for line in lines if isinstance(line.value, ast.Call)]
    late = [(target, call) for target, call in calls if _name(call.func) == "LateProblem"]
    return {ast.unparse(target): ast.literal_eval(call.keywords[0].value) for target, call in late}


def late_calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the id and the method (`warning`, `error`) of each late problem that is made."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=constant), attr=method)) if constant in late_problems():
                yield late_problems()[constant], method


def ids_in(tree: ast.AST) -> Iterator[str]:
    helpers = _helpers(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _literals(_id_of(node, helpers))
            yield from (name.replace("_", "-") for name in _literals(_type_of(node)))
        elif isinstance(node, ast.ClassDef):
            yield from _literals([value for name, value in _attributes(node) if name == "id"])
        elif isinstance(node, ast.FunctionDef) and node.name in helpers:
            defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            yield from _literals([default for arg, default in defaults if default is not None and arg.arg == "id"])
        elif isinstance(node, ast.AnnAssign) and _name(node.annotation) == "Refusals":
            yield from _literals(_first_of_each(node.value))


def _type_of(call: ast.Call) -> list[ast.expr]:
    """The type of a validator's own error, which becomes the id (xsft/spec/complaints.py)."""
    return call.args[:1] if _name(call.func) == "PydanticCustomError" else []


def _id_of(call: ast.Call, helpers: Mapping[str, int]) -> list[ast.expr]:
    """The expression that a call gives as an id; none where it gives none."""
    name = _name(call.func)
    named = [k.value for k in call.keywords if k.arg == "id"]
    if name in MAKERS and isinstance(call.func, ast.Name):
        return [*call.args[:1], *named]
    if name in TABLES and isinstance(call.func, ast.Name):
        return named
    return [*call.args[helpers[name] : helpers[name] + 1], *named] if name in helpers else []


def _helpers(tree: ast.AST) -> dict[str, int]:
    """Functions that hand one of their parameters on as an id, with its position: `refuse(id, where, …)`."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name not in MAKERS]
    calls = {f: [node for node in ast.walk(f) if isinstance(node, ast.Call)] for f in functions}
    positions: dict[str, int] = {}
    while True:
        unread = [f for f in functions if f.name not in positions]
        more = {f.name: position for f in unread if (position := _handed_on(f, calls[f], positions)) is not None}
        if not more:
            return positions
        positions |= more


def _handed_on(function: ast.FunctionDef, calls: Sequence[ast.Call], helpers: Mapping[str, int]) -> int | None:
    """The position of the parameter that one of the function's calls gives as an id."""
    names = [arg.arg for arg in (*function.args.args, *function.args.kwonlyargs) if arg.arg not in ("self", "cls")]
    names_given = {_name(expr) for call in calls for expr in _id_of(call, helpers)}
    return next((position for position, name in enumerate(names) if name in names_given), None)


def _first_of_each(table: ast.expr | None) -> list[ast.expr]:
    values = [value for node in ast.walk(table) if isinstance(node, ast.Dict) for value in node.values] if table else []
    return [value.elts[0] for value in values if isinstance(value, ast.Tuple)]


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Class attributes with a value: the errors' own ids (xsft/base/errors.py)."""
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.value is not None:
            yield item.target.id, item.value
        elif isinstance(item, ast.Assign):
            yield from ((target.id, item.value) for target in item.targets if isinstance(target, ast.Name))


def _literals(nodes: list[ast.expr]) -> Iterator[str]:
    """Constants, both arms of a choice, and f-strings as a pattern (`audit-*`); anything else is not an id of ours."""
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.IfExp(body=body, orelse=orelse):
                yield from _literals([body, orelse])
            case ast.JoinedStr(values=values):
                yield "".join(str(v.value) if isinstance(v, ast.Constant) else "*" for v in values)
            case _:
                pass
