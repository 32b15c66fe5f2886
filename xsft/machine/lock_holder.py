"""Finds and interrupts the process that holds a lock: only the one that the kernel lists as its holder."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

LOCKS = Path("/proc/locks")
"""Linux only; `1: FLOCK  ADVISORY  WRITE 4711 fe:01:131090 0 EOF`. source: man 5 proc_locks."""


def interrupt_holder(lock: Path) -> int | None:
    """Send Ctrl-C's signal to the process that holds `lock`; return its PID. None, and no signal, if the kernel does
    not list the holder, or the holder ignores the signal (`xsft … &` in a script).
    """
    pid = holder(lock)
    if pid is None or not hasattr(os, "pidfd_open"):
        return None
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            # Looked up again: from here on the handle identifies the process, even if its PID is reused.
            if holder(lock) != pid or _ignores(pid, signal.SIGINT):
                return None
            signal.pidfd_send_signal(handle, signal.SIGINT)
            return pid
        finally:
            os.close(handle)
    return None


def is_held(lock: Path) -> bool:
    """Return whether a process holds the lock. The kernel's lock list is read first: trying to take the lock holds it
    for a moment, and a submission in that moment would be refused.
    """
    if holder(lock) is not None:
        return True
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def holder(lock: Path, *, locks: Path = LOCKS) -> int | None:
    """Return the PID of the holder; None if no process or several hold it, or if it is unknown."""
    try:
        status = lock.stat()
        lines = locks.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    rows = (line.split() for line in lines)
    found = {
        int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == file and row[4].isdecimal()
    }
    return found.pop() if len(found) == 1 and min(found) > 0 else None


def _ignores(pid: int, number: signal.Signals) -> bool:
    """source: man 5 proc_pid_status, SigIgn: a mask in hexadecimal, signal 1 the lowest bit."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return True
