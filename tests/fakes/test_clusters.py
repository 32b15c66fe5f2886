"""Tests that run on the stand-in only: counted, so that one more is a decision."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.clusters import REASONS

TESTS = Path(__file__).parents[1]
COUNTED = {
    "no-request": 21,
    "not-installed": 4,
    "other-version": 1,
    "before-server": 1,
    "xpk": 3,
    "silence": 3,
    "tls": 34,
    "walked": 3,
    "prompt": 2,
    "held": 2,
    "identity": 1,
    "finished": 1,
    "kueue-configured": 2,
}
"""Test functions, by reason."""


def test_tests_on_the_stand_in_only_are_counted_by_reason() -> None:
    texts = [text for file in TESTS.rglob("test_*.py") if "standin_only" in (text := file.read_text())]
    counted = Counter(reason for text in texts for reason in marked(ast.parse(text)))
    assert dict(counted) == COUNTED


def test_every_reason_for_the_stand_in_is_counted() -> None:
    assert COUNTED.keys() == REASONS.keys()


def marked(module: ast.Module) -> Iterator[str]:
    """The reason of every test function that bears one, its own or its module's."""
    everywhere = [r for node in module.body if isinstance(node, ast.Assign) for r in reasons(node.value)]
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from [r for mark in node.decorator_list for r in reasons(mark)] or everywhere


def reasons(node: ast.expr) -> list[str]:
    calls = [node_inside for node_inside in ast.walk(node) if isinstance(node_inside, ast.Call)]
    names = [
        node_inside
        for node_inside in calls
        if isinstance(node_inside.func, ast.Attribute) and node_inside.func.attr == "standin_only"
    ]
    return [str(ast.literal_eval(node_inside.args[0])) for node_inside in names]
