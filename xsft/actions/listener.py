"""What actions report while they work: a verb shows it on the terminal, and a Python caller hears nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from xsft.aliases import ShowLine

ShowWaiting = Callable[[str], AbstractContextManager[ShowLine]]
"""Shows a line during a short request, and yields a function that replaces it."""


@contextmanager
def wait_silently(_line: str) -> Iterator[ShowLine]:
    """Show nothing."""
    yield lambda _line: None
