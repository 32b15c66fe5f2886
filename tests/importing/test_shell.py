"""Word expansion, compared with bash."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsft.importing.shell import Shell

VARIABLES = "A=1\nB='x  y'\nexport C=\"it's\" D=\nE=$((A + 2))\n"
PIECES = st.sampled_from(
    [
        *("a", "b=c", " ", "  ", " \\\n ", "\\\n", "'s q'", "''", '"d q"', '""', "\\ ", "\\'", '\\"', "\\\\"),
        *("\\$", '"\\a\\$"', "${A}", "${B}", "${B}", '"$B"', "'$B'", "${C}", "${D}", '"$D"', "${Z:-d e}"),
        *('"${Z:-d e}"', "${Z-'q r'}", "${D:-f}", "${D-f}", "${B:+g h}", "${Z:+i}", "${Z:=7}", "$((A - 1))"),
        *("$(( A + 2 - 3 ))", "$((1-${A}))", "$((-7 + ${Z:-3}))", "$'a\\tb'", "$'\\x41\\u00e9\\''", "$'\\101'"),
        *('"`', "é", "x#y", "%", "{", "}", "=", ":", ",", "@", "~x", "[x", "-"),
    ]
).filter(lambda piece: piece != '"`')


@pytest.fixture(scope="module")
def bash() -> str:
    bash_path = shutil.which("bash")
    if bash_path is None:
        pytest.skip("bash is not on PATH: the reader of words is not compared with it")
    return bash_path


@given(st.lists(PIECES, max_size=12).map("".join))
def test_words_equal_those_of_bash(bash: str, text: str) -> None:
    script = f"set -f\n{VARIABLES}printf '%s\\0' start {text}"
    done = subprocess.run([bash, "-c", script], capture_output=True, check=False, env={"LC_ALL": "C.UTF-8"})
    ours = Shell().run(f"{VARIABLES}printf start {text}")
    assert done.stderr == b""
    assert list(ours[0].argv[1:]) == done.stdout.decode().split("\0")[:-1]


def argv(text: str) -> list[tuple[str, ...]]:
    return [one.argv for one in Shell().run(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a; b && c | d\ne &", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a > f 2>&1 b", [("a", "b")]),
        ("a <<X | b\nit's\nX\nc", [("a",), ("b",), ("c",)]),
        ("$ a b  # copied from a terminal", [("a", "b")]),
        ("if [ $X = 1 ]; then a; else b; fi", [("a",), ("b",)]),
        ("nohup env A=1 exec -a x python3 y", [("x", "python3", "y")]),
        ("bash -lc 'export A=2 && exec b $A'", [("b", "2")]),
        ("timeout -k 5 10m a", [("a",)]),
        ("a \\  \n b", [("a", "b")]),
    ],
)
def test_commands_are_split_as_in_a_shell(text: str, expected: list[tuple[str, ...]]) -> None:
    assert argv(text) == expected


@pytest.mark.parametrize(
    "text", ["$(date)", "`date`", "${A%x}", "${#A}", "$1", "$?", "$((A * 2))", "$((1 2))", "{a,b}", "{1..3}", "<(x)x"]
)
def test_unknown_expansions_are_holes(text: str) -> None:
    shell = Shell()
    words = shell.run(f"a {text}")[0].argv
    assert words == ("a", "x") if "<" in text else shell.holes.holes_in(words[1])


def test_hole_is_labelled_with_its_variable() -> None:
    shell = Shell()
    (command,) = shell.run("a $B-${B?no} $((C + 1))")
    assert shell.holes.label_holes(" ".join(command.argv)) == "a ${B}-${B} ${C}"


def test_braces_are_unknown_only_where_bash_would_expand_them() -> None:
    shell = Shell()
    (command,) = shell.run("A={1,2}\na --zone=x{a,b} $A '{c,d}' {e} {f.g}")
    assert shell.holes.label_holes(" ".join(command.argv)) == "a --zone=x${COMMAND_1} {1,2} {c,d} {e} {f.g}"


def test_inner_exports_become_the_environment_of_the_command() -> None:
    (command,) = Shell().run("X=0 bash -c 'export A=1; B=2 c'")
    assert command.env == (("X", "0"), ("A", "1"), ("B", "2"))
