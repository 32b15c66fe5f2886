"""Ask the user at the terminal, on stderr, so that a piped stdout stays clean."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xsft.base.reporting import AskUser
from xsft.machine.streams import has_terminal


def confirm(question: str) -> bool:
    """Ask the question and return whether the answer is yes; an empty answer is no."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def asker(*, yes: bool) -> AskUser | None:
    """Return what asks the user; None if the answer is given already, or without a terminal."""
    return confirm if has_terminal() and not yes else None


def choose(question: str, options: Sequence[str], default: str = "") -> str:
    """Ask for one of the options by its number, or for another value; an empty answer is the default."""
    lines = [f"  {number}  {option}\n" for number, option in enumerate(options, start=1)]
    offered = f" [{default}]" if default else " [none]"
    sys.stderr.write("".join((*lines, f"{question}{offered}: ")))
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer.isascii() and answer.isdecimal() and 0 < int(answer) <= len(options):
        return options[int(answer) - 1]
    return answer or default
