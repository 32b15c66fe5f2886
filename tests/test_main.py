"""The end of the process: what others have asked for is done, and nobody is waited for who waits for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAVES = """
import atexit, sys
from concurrent.futures import ThreadPoolExecutor
from xsft.__main__ import _leave
atexit.register(lambda: print("asked for"))
pool = ThreadPoolExecutor(2)
pool.submit(print, "worked")
sys.stdout.write("no line end")
_leave({status})
"""


@pytest.mark.parametrize("status", [0, 7, 141])
def test_the_end(status: int) -> None:
    """An executor that nobody has shut down has threads that wait for the end of the interpreter."""
    argv = (sys.executable, "-c", LEAVES.format(status=status))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (status, "")
    assert sorted(done.stdout.replace("no line end", "").split("\n")) == ["", "asked for", "worked"]
    assert "no line end" in done.stdout


def test_nobody_reads_any_more() -> None:
    script = f"{sys.executable} -c 'import sys; from xsft.__main__ import _leave; print(1); _leave(5)'; echo $? >&2"
    done = subprocess.run(("bash", "-c", f"({script}) >&-"), capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr.splitlines()[-1:] == ["5"]
