"""Whether a signal ended the trainer, and what this machine says of it."""

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
"""util-linux 2.38 wants to die of the signal that its child died of, which SIGKILL does not allow; it prints this, and
exits with 1. source: util-linux@2.38.1 sys-utils/unshare.c, main, after waitpid; a test runs it.
"""
KMSG = Path("/dev/kmsg")
OUT_OF_MEMORY = re.compile(r"out of memory: killed process \d+ \([^)]*\)", re.IGNORECASE)
"""source: linux@6.12 mm/oom_kill.c, __oom_kill_process."""
SLACK_S = 10.0
"""The kernel's clock of its messages and the monotonic clock drift apart."""


def true_status(status: int, tail: Sequence[str]) -> int:
    """The trainer's exit status, 128 + n for signal n, also where `unshare` hides it."""
    swallowed = status == 1 and bool(tail) and SWALLOWED.match(tail[-1])
    return KILLED if swallowed else status


def signal_text(status: int, *, since: float) -> str | None:
    """What to say of a trainer that a signal ended; None where none did. `since`: `clock.monotonic` of its start."""
    if status == KILLED:
        return killed_text(memory_bytes=memory_bytes(), kernel=kernel_said(since=since))
    try:
        return (
            f"the trainer was ended by {signal.Signals(status - SIGNALS_FROM).name}" if status > SIGNALS_FROM else None
        )
    except ValueError:
        return None


def memory_bytes(*, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Of this machine, or of the control group where that allows less."""
    found = [one for one in (_total(proc / "meminfo"), _limit(proc / "self" / "cgroup", groups)) if one is not None]
    return min(found, default=None)


def kernel_said(*, since: float, read: Callable[[], Iterator[str]] | None = None) -> str | None:
    """The kernel's last word of a process that it killed for memory; None where there is none or it may not be read."""
    last = None
    for record in (read or _records)():
        head, _, text = record.partition(";")
        stamp = head.split(",")[2:3]
        at = int(stamp[0]) / 1e6 if stamp and stamp[0].isdecimal() else 0.0
        if at >= since - SLACK_S and OUT_OF_MEMORY.search(text):
            last = text.splitlines()[0]
    return last


def _records() -> Iterator[str]:
    """Each `priority,sequence,microseconds,flags;text`. source: linux Documentation/ABI/testing/dev-kmsg"""
    try:
        handle = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        while True:
            try:
                record = os.read(handle, 8192)
            except BrokenPipeError:  # it was overwritten meanwhile; the next read has the oldest that is left
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
    """Of the unified hierarchy."""
    own = re.search(r"^0::/(.*)$", _text(cgroup), re.MULTILINE)
    text = _text(groups / own[1] / "memory.max").strip() if own else ""
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
