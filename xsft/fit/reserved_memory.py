"""Reservations of this machine's memory by running compilations, and whether another one has room.

source: measured, aot_fit.md §0 and §2: dense models up to 405 billion parameters take 2 to 3.9 GiB, deepseek3-671b 4
to 7.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from xsft.base.errors import EnvironmentMissing
from xsft.machine import clock
from xsft.machine.filelock import content_if_held, create_locked, exclusive
from xsft.machine.paths import private_folder

POLL_S = 2.0


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
    with exclusive(folder / ".lock", waiting=lambda: None):
        match admission(free_gib=free_gib(), needed=needed, others=tuple(_held_reservations(folder))):
            case StartNow():
                return _write_reservation(folder, needed)
            case WaitForOthers(reason=reason):
                say(f"waiting: {reason}")
                return None
            case TooLittleMemory(reason=reason):
                fix = "End other programs, or run it on a machine with more memory."
                raise EnvironmentMissing(f"The compiler cannot start: {reason}.", fix=fix, id="fit-memory")


def _write_reservation(folder: Path, needed: float) -> int:
    return create_locked(folder / f"{os.getpid()}-{clock.monotonic():.6f}", f"{needed:g}".encode())


def _held_reservations(folder: Path) -> Iterator[float]:
    """Yield the reservations whose process lives; the others are removed."""
    for file in sorted(folder.glob("[0-9]*")):
        with suppress(OSError, ValueError):
            if (content := content_if_held(file)) is not None:
                yield float(content)


DENSE_GIB = 4.0
LARGE_GIB = 7.0
LARGE_FROM_B = 500.0


class StartNow(Struct, frozen=True, kw_only=True):
    """The compilation fits into the free memory."""


class WaitForOthers(Struct, frozen=True, kw_only=True):
    """Other compilations hold the memory that it needs."""

    reason: str


class TooLittleMemory(Struct, frozen=True, kw_only=True):
    """The machine has too little free memory, and no compilation will give any back."""

    reason: str


Admission = StartNow | WaitForOthers | TooLittleMemory


def needed_gib(*, params_b: float | None) -> float:
    """Return the GiB that a compilation takes at most; `params_b`: billions of parameters, None if unknown."""
    return LARGE_GIB if params_b is not None and params_b >= LARGE_FROM_B else DENSE_GIB


def admission(*, free_gib: float, needed: float, others: Sequence[float]) -> Admission:
    """Return whether to start. `others`: GiB reserved by running compilations, which may not hold them yet."""
    if free_gib - sum(others) >= needed:
        return StartNow()
    if others:
        held = f"{len(others)} other compilation{'s' if len(others) > 1 else ''} may take {sum(others):g} GiB"
        return WaitForOthers(reason=f"{free_gib:.1f} GiB of memory free, {needed:g} needed, and {held}")
    return TooLittleMemory(reason=f"{free_gib:.1f} GiB of memory free, {needed:g} needed")
