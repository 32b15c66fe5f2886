"""A lock with one holder at a time, across processes, and who holds it. The kernel releases it when its holder dies, so
it is never stale.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xsft.machine.paths import private_folder

LOCKS = Path("/proc/locks")
"""Linux only; `1: FLOCK  ADVISORY  WRITE 4711 fe:01:131090 0 EOF`. source: man 5 proc_locks."""


@contextmanager
def exclusive(path: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `path` locked; `waiting` is called once if another process holds it. The file is kept: removing it would be
    a race.
    """
    private_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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
    pids = {int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == file and row[4].isdecimal()}
    # 0 is a process of another PID namespace
    return pids.pop() if len(pids) == 1 and min(pids) > 0 else None


def _ignores(pid: int, number: signal.Signals) -> bool:
    """source: man 5 proc_pid_status, SigIgn: a mask in hexadecimal, signal 1 the lowest bit."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return True
