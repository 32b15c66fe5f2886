"""Standard streams, where something must be done to the file descriptors themselves."""

from __future__ import annotations

import contextlib
import os
import sys


def silence_stdout() -> None:
    """Point stdout at /dev/null: after a broken pipe Python would complain once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
