"""Imports stand at the top, where ruff's PLC0415 keeps them; the modules that may import late are few (pyproject.toml).

The table of verbs (`xsft.verbs.cli`) loads a verb late, by importlib; that is the one seam, and not counted.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def doors() -> Iterator[Path]:
    """The modules of xsft that may import late."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    ignores: dict[str, list[str]] = settings["tool"]["ruff"]["lint"]["per-file-ignores"]
    for pattern, rules in ignores.items():
        if "PLC0415" in rules and pattern.startswith("xsft/"):
            yield from (path for name in _expanded(pattern) for path in ROOT.glob(name) if path.is_file())


def _expanded(pattern: str) -> tuple[str, ...]:
    """`a/{b,c}.py` is two."""
    braces = re.fullmatch(r"(.*)\{(.*)\}(.*)", pattern)
    return tuple(f"{braces[1]}{name}{braces[3]}" for name in braces[2].split(",")) if braces else (pattern,)


def late_imports(path: Path) -> int:
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return len(
        {node for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)}
    )


def test_late_imports_are_few() -> None:
    counts = {path: late_imports(path) for path in doors()}
    assert sum(count for path, count in counts.items() if not _runs_elsewhere(path)) <= 30


def _runs_elsewhere(path: Path) -> bool:
    """Return whether another environment's interpreter runs the module, with libraries that ours lacks."""
    return path.parent.name == "workers"


def test_no_line_of_xsft_suppresses_the_rule_of_imports() -> None:
    assert [path for path in (ROOT / "xsft").rglob("*.py") if "noqa: PLC0415" in path.read_text("utf-8")] == []
