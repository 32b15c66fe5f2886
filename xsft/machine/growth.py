"""Follows the size of a folder that another machine writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from xsft.base.errors import Unreachable
from xsft.machine.parallel import repeat_call
from xsft.machine.process import own_environment
from xsft.machine.storage import storage_for

EVERY_S = 10.0
"""Seconds between two reads; each lists the folder's files."""


@contextmanager
def watch_growth(folder: str, *, on_size: Callable[[int], None], every_s: float = EVERY_S) -> Iterator[None]:
    """Call `on_size` with the bytes of the folder from a thread, while the block runs. A size that cannot be read is
    skipped, because it is only shown."""

    def look() -> None:
        with suppress(Unreachable):
            size = storage_for(folder, env=own_environment()).size(folder)
            if size is not None:
                on_size(size)

    with repeat_call(look, every_s=every_s):
        yield
