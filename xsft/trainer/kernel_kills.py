"""Determines whether a signal ended a program, and what this machine's kernel logged about it; the message for
a killed program, and the next step for a trainer."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xsft.machine.memory import memory_bytes
from xsft.machine.watched_process import SIGNALS_FROM

KILLED = SIGNALS_FROM + signal.SIGKILL
SWALLOWED = re.compile(r"^unshare: .+: .+$")
"""util-linux 2.38 tries to die of the signal that killed its child, which is impossible for SIGKILL; it prints this and
exits with 1. source: util-linux@2.38.1 sys-utils/unshare.c, main, after waitpid; a test runs it.
"""
KMSG = Path("/dev/kmsg")
OUT_OF_MEMORY = re.compile(r"out of memory: killed process \d+ \([^)]*\)", re.IGNORECASE)
"""source: linux@6.12 mm/oom_kill.c, __oom_kill_process."""
SLACK_S = 10.0
"""The clock of kernel messages and the monotonic clock drift apart."""


def true_status(status: int, tail: Sequence[str]) -> int:
    """Return the program's exit status, 128 + n for signal n, also if `unshare` hides it."""
    swallowed = status == 1 and bool(tail) and SWALLOWED.match(tail[-1])
    return KILLED if swallowed else status


def signal_text(program: str, status: int, *, since: float) -> str | None:
    """Return the message for a program that a signal ended; None if none did. `since`: `clock.monotonic` of its
    start.
    """
    if status == KILLED:
        return killed_text(program, memory_bytes=memory_bytes(), kernel=kernel_said(since=since))
    try:
        return f"{program} was ended by {signal.Signals(status - SIGNALS_FROM).name}" if status > SIGNALS_FROM else None
    except ValueError:
        return None


def kernel_said(*, since: float, read: Callable[[], Iterator[str]] | None = None) -> str | None:
    """Return the kernel's last message on a process that it killed for memory; None if there is none or it may not be
    read.
    """
    last = None
    for record in (read or _records)():
        head, _, text = record.partition(";")
        stamp = head.split(",")[2:3]
        logged_s = int(stamp[0]) / 1e6 if stamp and stamp[0].isdecimal() else 0.0
        if logged_s >= since - SLACK_S and OUT_OF_MEMORY.search(text):
            last = text.splitlines()[0]
    return last


def _records() -> Iterator[str]:
    """Yield each record, `priority,sequence,microseconds,flags;text`. source: linux
    Documentation/ABI/testing/dev-kmsg
    """
    try:
        handle = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        while True:
            try:
                record = os.read(handle, 8192)
            except BrokenPipeError:  # it was overwritten; the next read returns the oldest one left
                continue
            if not record:
                return
            yield record.decode("utf-8", "replace")
    except OSError:  # BlockingIOError: nothing more
        return
    finally:
        os.close(handle)


TRAINER = "the trainer"
TRAINER_KILLED = f"{TRAINER} was killed (SIGKILL)"
"""Start of the text for a trainer; a rule of `xsft why` looks for it."""
LESS = (
    "Reduce its memory use (train.max_target_length, train.per_device_batch_size or a smaller model) or free "
    "memory, and submit it again."
)


def killed_text(program: str, *, memory_bytes: int | None, kernel: str | None) -> str:
    """Return the message for a killed program. `kernel`: the kernel's message of an out-of-memory kill, if it was
    read.
    """
    machine = f"this machine has {memory_bytes / 1e9:.1f} GB of memory" if memory_bytes else ""
    killed = f"{program} was killed (SIGKILL)"
    if kernel:
        return "; ".join(part for part in (f"{killed}: out of memory: {kernel}", machine) if part)
    usual = "by an unknown process; usually the kernel does it when memory runs out (check `sudo dmesg`)"
    return "; ".join(part for part in (f"{killed}: {usual}", machine) if part)
