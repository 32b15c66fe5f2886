"""Types are first described in the main thread: msgspec@0.22.0 crashes the process if two threads do so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "xsft"
WORDS = re.compile(r"\b(Decoder|decode|convert)\(")
"""In every module that describes a type; the others need not be parsed."""
OWN_WORKER = "a verb of this machine decodes what its own worker printed, in one thread"
EXCEPTED = {
    "data/pipeline.py": OWN_WORKER,
    "launch/prepare_": OWN_WORKER,
    "stages/evaluate_plan.py": OWN_WORKER,
    "evaluation/report.py": "a report is read by the verb itself",
    "catalog/releases.py": "the module describes the types when it is imported",
    "cluster/answers.py": "the module describes the types when it is imported",
    "cluster/access.py": "the module describes the types when it is imported",
    "image/lock.py": "the module describes the types when it is imported",
    "verbs/": "the main thread fills requests and documents; other threads have their decoders",
    "records/document.py": "the module describes the types when it is imported",
    "records/index.py": "the module describes the types when it is imported",
    "runs/causes.py": "the module describes the types when it is imported",
    "runs/lastknown.py": "the module describes the types when it is imported",
    "cluster/objects.py": "the module describes the types when it is imported",
}


def test_types_are_decoded_by_decoders_that_modules_make() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.rglob("*.py")}
    lines_by_module = {path: lines for path, text in texts.items() if WORDS.search(text) and (lines := typed(text))}
    assert {path: lines for path, lines in lines_by_module.items() if not path.startswith(tuple(EXCEPTED))} == {}
    assert all(any(path.startswith(prefix) for path in lines_by_module) for prefix in EXCEPTED)


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("decode(text, type=Row)", True),
        ("msgspec.json.decode(text, type=list[Row])", True),
        ("msgspec.convert(found, Row)", True),
        ("msgspec.json.Decoder(Row)", True),
        ("msgspec.json.decode(text)", False),
        ("ROW.decode(text)", False),
    ],
)
def test_typed_finds_the_lines_of_functions_that_describe_a_type(line: str, reported: bool) -> None:
    assert bool(typed(f"def f(text):\n    return {line}\n")) == reported
    assert typed(f"FOUND = {line}\n") == []


def typed(source: str) -> list[int]:
    """Return the lines in functions where msgspec is given a type to decode."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    calls = (node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call))
    return sorted({call.lineno for call in calls if _describes(call)})


def _describes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    has_type = any(keyword.arg == "type" for keyword in call.keywords)
    return name == "Decoder" or (name == "decode" and has_type) or (name == "convert" and len(call.args) == 2)
