from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.mutate import mutants

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


@dataclass(frozen=True)
class Thing(Base, frozen=True, most=2):
    pass
'''

BOUNDED = """\
LIMIT = 4
UNUSED = 7

def bounded(value):
    return value + 1 if value > 3 else value - 1

def early(value):
    return value + 1

def endless(value):
    seen = []
    while value != LIMIT:
        seen.append(value)
        value += 1
    return seen
"""
TESTS = """\
from bounded import bounded, early, endless
EARLY = early(1)
def test_early(): assert EARLY == 2
def test_bounded(): assert [bounded(2), bounded(9)] == [1, 10]
def test_endless(): assert endless(2) == [2, 3]
def test_wrong(): assert bounded(9) == 11
"""


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
        "2  ->  3",
    ]


def test_a_mutant_differs_in_its_line_alone() -> None:
    whole = ast.unparse(ast.parse(SOURCE)).splitlines()
    for one in mutants(SOURCE):
        changed = ast.unparse(one.tree(SOURCE)).splitlines()
        assert sum(before != after for before, after in zip(whole, changed, strict=True)) == 1, one.what


@pytest.mark.contract
def test_survivors_are_listed_and_noticed_mutants_are_not(tmp_path: Path) -> None:
    """In bodies, for which the tests are collected once, and outside of them, for which they are imported again."""
    (tmp_path / "bounded.py").write_text(BOUNDED)
    (tmp_path / "test_it.py").write_text(TESTS)
    ran = _mutate(tmp_path, "bounded.py", "--tests", "test_it.py")
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        "5: bounded.py:5: value > 3  ->  value >= 3",
        "8: bounded.py:5: 3  ->  4",
        "1: bounded.py:2: 7  ->  8",
        "bounded.py: 3 of 19 mutants survived",
    ]
    assert ran.stderr == "test_it.py::test_wrong is left out: it fails without a change\n"


@pytest.mark.contract
def test_mutate_exits_2_when_no_test_passes_without_a_change(tmp_path: Path) -> None:
    (tmp_path / "bounded.py").write_text("")
    (tmp_path / "test_it.py").write_text("def test(): assert False\n")
    ran = _mutate(tmp_path, "bounded.py", "--tests", "test_it.py")
    assert (ran.returncode, ran.stderr) == (2, "no test passes without a change: test_it.py\n")


def _mutate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "tests.tools.mutate", *arguments)
    path = os.pathsep.join((str(folder), str(Path.cwd())))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(argv, check=False, cwd=folder, env=environment, capture_output=True, text=True)
