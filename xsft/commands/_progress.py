"""Progress on stderr: a spinner with the seconds on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown(title: str) -> Iterator[Callable[[str], None]]:
    """Yields the function that takes progress lines. Nothing is shown before the first line."""
    if not sys.stderr.isatty():
        yield lambda line: print(f"xsft: {line}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(title, total=None)
        yield lambda line: display.update(task, description=f"{title}: {line}")
