"""Searches a user's regular expression in a process of its own, with a time limit: some need exponential time."""

from __future__ import annotations

import json
import subprocess
import sys

LIMIT_S = 10.0
"""The process itself starts in some 20 ms."""
PROGRAM = "import json, re, sys; one = json.load(sys.stdin); sys.exit(0 if re.search(*one) else 3)"


def matches(expression: str, text: str, *, limit_s: float = LIMIT_S) -> bool | None:
    """Return whether the expression is found in the text; None if that takes longer than `limit_s` seconds. Raises
    ValueError if the expression is invalid."""
    argv, question = (sys.executable, "-I", "-c", PROGRAM), json.dumps((expression, text))
    try:
        done = subprocess.run(argv, input=question, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return None
    match done.returncode:
        case 0:
            return True
        case 3:
            return False
        case _:
            raise ValueError(f"{expression!r} cannot be searched for: {done.stderr.strip().rpartition(chr(10))[2]}")
