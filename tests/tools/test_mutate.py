from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tools.mutate import main, mutants

SOURCE = '''\
"""Words."""

def bounded(value: int, most: int = 3) -> int:
    """More words."""
    if value < most and not value == 0:
        print(f"said {value}", end="")
        raise ValueError("not so much")
    return min(value, most) if value else None


def nothing() -> None:
    return None
'''


def test_each_expression_is_changed_once_and_words_are_not() -> None:
    assert [one.what for one in mutants(SOURCE)] == [
        "3  ->  4",
        "value < most and (not value == 0)  ->  value < most or not value == 0",
        "value < most  ->  value <= most",
        "not value == 0  ->  value == 0",
        "value == 0  ->  value != 0",
        "0  ->  1",
        "print(f'said {value}', end='')  ->  pass",
        "print(f'said {value}', end='')  ->  print(f'said {value}')",
        "raise ValueError('not so much')  ->  pass",
        "return min(value, most) if value else None  ->  return None",
        "min(value, most) if value else None  ->  min(value, most)",
        "min(value, most) if value else None  ->  None",
    ]


def test_a_mutant_differs_in_its_line_alone() -> None:
    whole = ast.unparse(ast.parse(SOURCE)).splitlines()
    for one in mutants(SOURCE):
        changed = ast.unparse(one.tree(SOURCE)).splitlines()
        assert sum(before != after for before, after in zip(whole, changed, strict=True)) == 1, one.what


@pytest.mark.contract
def test_a_survivor_is_listed_and_a_killed_mutant_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the bound, which one test of two holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bounded.py").write_text("def bounded(value):\n    return value + 1 if value > 3 else value - 1\n")
    (tmp_path / "test_it.py").write_text("from bounded import bounded\ndef test(): assert bounded(9) == 10\n")
    assert main(["--only", "3,4", "bounded.py", "test_it.py"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "3: bounded.py:2: value > 3  ->  value >= 3",
        "bounded.py: 1 of 2 mutants survived",
    ]
