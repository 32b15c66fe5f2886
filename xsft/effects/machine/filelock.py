"""A lock with one holder at a time, across processes. The kernel releases it when its holder dies, so it is never
stale.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xsft.effects.machine.paths import private_folder


@contextmanager
def exclusive(path: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `path` locked; `waiting` is called once if another process holds it. The file is kept: removing it would be
    a race.
    """
    private_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _wait_for_lock(handle, waiting)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(handle: int, waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(handle, fcntl.LOCK_EX)
