"""Standard streams, where something must be done to the file descriptors themselves."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def prepare_streams() -> None:
    """Make the streams usable: a closed one is empty or goes nowhere, and text that the locale cannot write is escaped.

    Standard input first: its descriptor is the lowest, so that no socket or file of ours becomes it.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the whole process
    sys.stdout = _prepared(sys.stdout)
    sys.stderr = _prepared(sys.stderr)


def _prepared(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    with contextlib.suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return stream


def silence_stdout() -> None:
    """Point stdout at /dev/null: after a broken pipe Python would complain once more at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
