"""Messages for Ctrl-C: the state of the run, and how to continue. The command line prints the notes of a
KeyboardInterrupt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

NOTHING_CREATED = "Nothing was created yet; run the command again."


@contextmanager
def when_interrupted(note: str) -> Iterator[None]:
    """Add `note` to a KeyboardInterrupt raised inside. If blocks are nested, only the innermost adds its note, which is
    the most precise.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        if not getattr(stop, "__notes__", ()):
            stop.add_note(note)
        raise


def goes_on(name: str, *, where: str = "") -> str:
    """Return the note that the run continues. `where`: the options that find the run, if any were given."""
    at = f" {where}" if where else ""
    return (
        f"Run {name} is unaffected and continues. `xsft wait {name}{at}` waits for its end, `xsft logs {name} -f{at}`"
        f" shows its log, `xsft cancel {name}{at}` ends it."
    )
