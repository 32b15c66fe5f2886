"""Ask the user at the terminal, on stderr, so that a piped stdout stays clean."""

from __future__ import annotations

import sys


def at_terminal() -> bool:
    """Return whether a terminal is there to ask a question and read the answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask the question and return whether the answer is yes; an empty answer is no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
