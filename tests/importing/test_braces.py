"""Brace expansion, compared with bash."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.base.errors import SpecError
from xsft.importing.shell import Shell

PIECES = st.sampled_from(["{", "{", "}", "}", ",", ",", "a", "b", " ", "''", "','", "\\,", "\\{", '"{"', "${A}", "="])


@pytest.fixture(scope="module")
def bash() -> str:
    found = shutil.which("bash")
    assert found is not None
    return found


@given(st.lists(PIECES, max_size=16).map("".join))
def test_brace_expansion_equals_that_of_bash(bash: str, text: str) -> None:
    script = f"set -f\nA='x,  y}}'\nprintf '%s\\0' start {text}"
    done = subprocess.run([bash, "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    ours = Shell().run(f"A='x,  y}}'\nprintf start {text}")
    assert list(ours[0].argv[1:]) == done.stdout.decode().split("\0")[:-1]


def test_braces_expand_in_declarations_but_not_in_assignments() -> None:
    shell = Shell()
    shell.run("A={1,2}\nexport B={1,2}")
    assert shell.variables == {"A": "{1,2}", "B": "2"}


def test_brace_sequence_is_a_hole() -> None:
    shell = Shell()
    shell.run("a x{1..3}")
    assert shell.holes
    assert Shell().run("a x{1.3} {a..}")[0].argv == ("a", "x{1.3}", "{a..}")


@pytest.mark.parametrize("text", ["{a,b}" * 40, "{,}" * 5000, "{a," * 100 + "}" * 100, "{" * 200_000, "{a,b" * 50_000])
def test_hostile_brace_words_take_under_10_seconds(text: str) -> None:
    before = time.process_time()
    try:
        Shell().run(f"a {text}")
    except SpecError as refused:
        assert refused.problems[0].id == "import-nesting"  # noqa: PT017 - either is an answer
    assert time.process_time() - before < 10
