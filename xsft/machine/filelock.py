"""A lock with one holder at a time, across processes. The kernel releases it when its holder dies, so it is never
stale.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xsft.machine.paths import private_folder


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


def create_locked(path: Path, content: bytes) -> int:
    """Create the file with this content, locked by this process; return its handle. Closing it releases the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.write(handle, content)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def content_if_held(path: Path) -> bytes | None:
    """Return the content of a file that `create_locked` made and whose process lives; otherwise remove it and return
    None. Raises OSError.
    """
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read()
        path.unlink()
        return None
