"""One number per live test session of this machine, so that no two share a folder, a bridge or a subnet."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SLOTS = 16
LOCKS = Path("/run/lock/xsft-tests-engine")
"""One place for the whole machine, whatever cache folder a session has: bridges are the machine's."""


@dataclass(frozen=True)
class Slot:
    number: int
    folder: Path
    """Empty, private, removed at the end."""


class AllTaken(Exception):
    """Raised when as many sessions as there are slots have an engine."""


@contextmanager
def slot(base: Path) -> Iterator[Slot]:
    """The first free slot under `base`. The kernel frees it when its holder dies; what that one left is removed."""
    number, handle = _take()
    free_slot = Slot(number=number, folder=base / str(number))
    try:
        _remove(free_slot.folder)
        free_slot.folder.mkdir(mode=0o700)
        yield free_slot
        _remove(free_slot.folder)
    finally:
        os.close(handle)


def _take() -> tuple[int, int]:
    LOCKS.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number in range(SLOTS):
        if (handle := _try(number)) is not None:
            return number, handle
    raise AllTaken(f"{SLOTS} test sessions hold a Docker engine (locks in {LOCKS})")


def unheld() -> Iterator[int]:
    """Numbers that no session has; while one is yielded, none can take it."""
    for number in range(SLOTS):
        if (handle := _try(number)) is not None:
            try:
                yield number
            finally:
                os.close(handle)


def _try(number: int) -> int | None:
    handle = os.open(LOCKS / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
