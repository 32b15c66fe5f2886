"""Searches a user's regular expression in a process with limits of time and memory: some need exponential time. This
file is the program of that process.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable

LIMIT_S = 2.0
"""CPU time; the process itself starts in some 20 ms."""
MEMORY = 2**30
"""Bytes of address space, which macOS does not limit."""
INVALID = 3
"""Exit status for an invalid expression."""


def matching_texts(
    expression: str, texts: Iterable[str], *, whole: bool = False, limit_s: float = LIMIT_S
) -> tuple[str, ...] | None:
    """Return the texts in which the expression is found, or which it matches as a `whole`; None if that takes more than
    `limit_s` seconds or too much memory. Raises ValueError if the expression is invalid.
    """
    argv = (sys.executable, "-I", __file__)
    # A process, not a thread: nothing in Python stops a search that has begun.
    question = json.dumps((expression, tuple(texts), whole, limit_s))
    done = subprocess.run(argv, input=question, capture_output=True, text=True, check=False)
    if done.returncode == INVALID:
        raise ValueError(f"{expression!r} cannot be searched for: {done.stderr.strip()}")
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else None


def main() -> None:
    expression, texts, whole, limit_s = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.setitimer(signal.ITIMER_PROF, limit_s)  # its signal ends the process
    try:
        pattern = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as invalid:
        sys.stderr.write(str(invalid))
        sys.exit(INVALID)
    found = pattern.fullmatch if whole else pattern.search
    json.dump([text for text in texts if found(text)], sys.stdout)


if __name__ == "__main__":
    main()
