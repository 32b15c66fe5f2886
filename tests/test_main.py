"""The end of the process: its exit status, even with open readers or threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.loopback

ENDS = """
import atexit, sys
from concurrent.futures import ThreadPoolExecutor
import xsft.verbs.cli
from xsft.__main__ import run
atexit.register(lambda: print("asked for"))
pool = ThreadPoolExecutor(2)
pool.submit(print, "worked")
sys.stdout.write("no line end")
xsft.verbs.cli.main = lambda: {status}
run()
"""


@pytest.mark.early
@pytest.mark.parametrize("status", [0, 7, 141])
def test_the_process_exits_with_its_status_after_threads_and_exit_handlers(status: int) -> None:
    """An executor that was not shut down has threads that wait for the end of the interpreter."""
    argv = (sys.executable, "-c", ENDS.format(status=status))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (status, "")
    assert sorted(done.stdout.replace("no line end", "").split("\n")) == ["", "asked for", "worked"]
    assert "no line end" in done.stdout


@pytest.mark.parametrize(("arguments", "status"), [("wait --json", 2), ("--help", 0), ("", 2)])
def test_a_closed_stdout_keeps_the_exit_status(arguments: str, status: int) -> None:
    assert ended(arguments, ">&-") == [str(status)]


def test_a_closed_pipe_is_reported_by_exit_141_alone() -> None:
    """argparse itself swallows that for --help."""
    assert ended("wait --json", "| :") == ["141"]
    assert ended("--help", "| :") in (["141"], ["0"])


def ended(arguments: str, reader: str) -> list[str]:
    """The last line of stderr: the exit status."""
    script = f"( sleep 0.1; {sys.executable} -m xsft {arguments}; echo $? >&2 ) {reader}"
    done = subprocess.run(("bash", "-c", script), capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done.stderr.splitlines()[-1:]
