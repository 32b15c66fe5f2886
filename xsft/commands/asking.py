"""A question to the person at the terminal. On stderr, so that a piped stdout stays clean."""

from __future__ import annotations

import sys


def at_terminal() -> bool:
    """Whether a question can be read and answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Whether the answer is yes; an empty one is no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
