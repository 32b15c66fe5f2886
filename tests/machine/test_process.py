from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from xsft.base.errors import EnvironmentMissing, TimedOut
from xsft.machine import process

ECHO = """
import os, sys
print(sys.argv[1:], os.environ.get('A'), sys.stdin.read())
print('loud', file=sys.stderr)
sys.exit(3)
"""


def test_run_passes_argv_environment_and_input_and_returns_streams_and_status() -> None:
    done = process.run((sys.executable, "-c", ECHO, "a b", "$HOME"), env={"A": "x"}, stdin="in")
    assert (done.stdout, done.stderr, done.status, done.ok) == ("['a b', '$HOME'] x in\n", "loud\n", 3, False)


def test_a_missing_program_is_an_environment_problem() -> None:
    with pytest.raises(EnvironmentMissing, match="no-such-tool was not found") as caught:
        process.run(("no-such-tool",), env={})
    assert "xsft doctor" in caught.value.fix


def test_a_file_that_cannot_be_executed_is_an_environment_problem(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="could not be started"):
        process.run((str(tmp_path),), env={})


def test_a_process_is_killed_after_its_timeout() -> None:
    argv = (sys.executable, "-c", "import signal; signal.pause()")
    for run in (process.run, process.at_terminal, partial(process.follow, on_line=list)):
        with pytest.raises(TimedOut, match=r"after 0\.2 s") as caught:
            run(argv, env={}, timeout_s=0.2)
        assert shlex.split(caught.value.fix.removeprefix("run it manually: ")) == list(argv)


def test_follow_passes_lines_on_as_they_come() -> None:
    lines: list[str] = []
    script = "import sys; print('one', flush=True); print('two', file=sys.stderr)"
    done = process.follow((sys.executable, "-c", script), env={}, on_line=lines.append)
    assert lines == ["one", "two"]
    assert (done.ok, done.stdout) == (True, "one\ntwo")


def test_follow_kills_the_process_if_the_listener_raises() -> None:
    def give_up(line: str) -> None:
        raise KeyboardInterrupt(line)

    script = "import signal; print('ready', flush=True); signal.pause()"
    with pytest.raises(KeyboardInterrupt, match="ready"):
        process.follow((sys.executable, "-c", script), env={}, on_line=give_up)


def test_own_environment_is_a_copy() -> None:
    changed = process.own_environment(XSFT_TEST_ONLY="1")
    assert changed["XSFT_TEST_ONLY"] == "1"
    assert "XSFT_TEST_ONLY" not in process.own_environment()
