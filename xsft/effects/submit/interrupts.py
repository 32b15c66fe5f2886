"""What the user is told who presses Ctrl-C: what is known of the run, and how to go on. The command line prints the
notes of a KeyboardInterrupt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

NOTHING_CREATED = "Nothing was created: the same command does it."


@contextmanager
def when_interrupted(told: str) -> Iterator[None]:
    """The innermost one speaks: it knows most."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if not getattr(stop, "__notes__", ()):
            stop.add_note(told)
        raise


def goes_on(name: str, *, where: str = "") -> str:
    """`where`: the options that find the run, where it took any."""
    at = f" {where}" if where else ""
    return (
        f"Nothing was done to {name}: it goes on. `xsft wait {name}{at}` waits for its end, `xsft logs {name} -f{at}`"
        f" shows its log, `xsft cancel {name}{at}` ends it."
    )
