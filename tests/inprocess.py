"""`xsft` in this process: what a command line prints and its exit status, without the half second of an interpreter."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from xsft.verbs.cli import main


def xsft(*arguments: str, stdin: str | None = "") -> CompletedProcess[str]:
    """Run xsft and return the result as `subprocess.run` would. `stdin`: None, closed."""
    input_stream = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with patch.object(sys, "stdin", input_stream), redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(arguments)
        finally:
            if sys.stdin is not input_stream:  # what stands for a closed one
                sys.stdin.close()
    return CompletedProcess(arguments, status, stdout=_written(out), stderr=_written(err))


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
