"""Determines whether a signal ended the trainer, and what this machine's kernel logged about it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xsft.effects.local.trainer_process import SIGNALS_FROM
from xsft.trainers.killed import killed_text

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
    """Return the trainer's exit status, 128 + n for signal n, also if `unshare` hides it."""
    swallowed = status == 1 and bool(tail) and SWALLOWED.match(tail[-1])
    return KILLED if swallowed else status


def signal_text(status: int, *, since: float) -> str | None:
    """Return the message for a trainer that a signal ended; None if none did. `since`: `clock.monotonic` of its
    start.
    """
    if status == KILLED:
        return killed_text(memory_bytes=memory_bytes(), kernel=kernel_said(since=since))
    try:
        return (
            f"the trainer was ended by {signal.Signals(status - SIGNALS_FROM).name}" if status > SIGNALS_FROM else None
        )
    except ValueError:
        return None


def memory_bytes(*, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the memory of this machine, or of the control group if that allows less."""
    found = [one for one in (_total(proc / "meminfo"), _limit(proc / "self" / "cgroup", groups)) if one is not None]
    return min(found, default=None)


def kernel_said(*, since: float, read: Callable[[], Iterator[str]] | None = None) -> str | None:
    """Return the kernel's last message on a process that it killed for memory; None if there is none or it may not be
    read.
    """
    last = None
    for record in (read or _records)():
        head, _, text = record.partition(";")
        stamp = head.split(",")[2:3]
        at = int(stamp[0]) / 1e6 if stamp and stamp[0].isdecimal() else 0.0
        if at >= since - SLACK_S and OUT_OF_MEMORY.search(text):
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


def _total(meminfo: Path) -> int | None:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _text(meminfo), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _limit(cgroup: Path, groups: Path) -> int | None:
    """Return the limit in the unified hierarchy."""
    own = re.search(r"^0::/(.*)$", _text(cgroup), re.MULTILINE)
    text = _text(groups / own[1] / "memory.max").strip() if own else ""
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
