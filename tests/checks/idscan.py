"""Which problems the code can raise: ids given to `error`, `warning`, `note`, to tables and to error classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "xsft"
MAKERS = frozenset({"error", "warning", "note"})
ERRORS = frozenset({"UsageError", "EnvironmentMissing", "Refused", "Unreachable", "TimedOut", "Unknown", "Lost"})
TABLES = frozenset({"Known", "Refusal", "Problem", *ERRORS})


def ids_in_code(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Id -> the modules that raise it, as paths below the package."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        for name in ids_in(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, set()).add(str(path.relative_to(package)))
    return found


def ids_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in MAKERS:
                yield from _literals(node.args[:1])
            if node.func.id in {*MAKERS, *TABLES}:
                yield from _literals([k.value for k in node.keywords if k.arg == "id"])
        elif isinstance(node, ast.ClassDef):
            yield from _literals([value for name, value in _attributes(node) if name == "id"])


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Class attributes with a value: the errors' own ids (xsft/errors.py)."""
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
