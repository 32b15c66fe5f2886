"""Reservations of this machine's memory by running compilations, and whether another one has room.

source: measured, aot_fit.md §0 and §2: dense models up to 405 billion parameters take 2 to 3.9 GiB, deepseek3-671b 4
to 7.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xsft.base.amounts import counted_text
from xsft.base.errors import EnvironmentMissing
from xsft.machine import clock
from xsft.machine.filelock import content_if_held, create_locked, exclusive
from xsft.machine.paths import private_folder

POLL_S = 2.0
DENSE_GIB = 4.0
LARGE_GIB = 7.0
LARGE_FROM_B = 500.0


def needed_gib(*, params_b: float | None) -> float:
    """Return the GiB that a compilation takes at most; `params_b`: billions of parameters, None if unknown."""
    return LARGE_GIB if params_b is not None and params_b >= LARGE_FROM_B else DENSE_GIB


@contextmanager
def reserved_memory(
    folder: Path,
    *,
    needed: float,
    say: Callable[[str], None],
    free_gib: Callable[[], float],
    pause: Callable[[float], None] = clock.pause,
) -> Iterator[None]:
    """Hold a reservation of `needed` GiB while the block runs; wait while other compilations hold what it needs, and
    say so once.

    Raises EnvironmentMissing, fit-memory, if the machine has too little, and no compilation to wait for.
    """
    private_folder(folder)
    handle = _reserve(folder, needed=needed, say=say, free_gib=free_gib)
    while handle is None:
        pause(POLL_S)
        handle = _reserve(folder, needed=needed, say=lambda _line: None, free_gib=free_gib)
    try:
        yield
    finally:
        os.close(handle)  # closing releases the lock; the next caller removes the file


def _reserve(folder: Path, *, needed: float, say: Callable[[str], None], free_gib: Callable[[], float]) -> int | None:
    """Return the handle of the new reservation; None if others hold the memory that it needs."""
    with exclusive(folder / ".lock", waiting=lambda: None):
        # running compilations may not hold yet what they reserved
        free, others = free_gib(), tuple(_held_reservations(folder))
        if free - sum(others) >= needed:
            return create_locked(folder / f"{os.getpid()}-{clock.monotonic():.6f}", f"{needed:g}".encode())
        missing = f"{free:.1f} GiB of memory free, {needed:g} needed"
        if not others:
            fix = "End other programs, or run it on a machine with more memory."
            raise EnvironmentMissing(f"The compiler cannot start: {missing}.", fix=fix, id="fit-memory")
        compilations = counted_text(len(others), "other compilation")
        say(f"waiting: {missing}, and {compilations} may take {sum(others):g} GiB")
        return None


def _held_reservations(folder: Path) -> Iterator[float]:
    """Yield the reservations whose process lives; the others are removed."""
    for file in sorted(folder.glob("[0-9]*")):
        with suppress(OSError, ValueError):
            if (content := content_if_held(file)) is not None:
                yield float(content)
