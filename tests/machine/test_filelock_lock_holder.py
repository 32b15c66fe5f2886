"""Real locks of real processes; only those that the test started are ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from xsft.machine.filelock import LOCKS, holder, interrupt_holder

if not LOCKS.exists():  # pragma: no cover
    pytest.skip("who holds a lock can be asked on Linux only", allow_module_level=True)

HOLD = """
import signal, sys
from pathlib import Path
from xsft.machine.filelock import exclusive
if {ignoring}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
with exclusive(Path(sys.argv[1]), waiting=lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(lock: Path, *, ignoring: bool = False) -> Iterator[subprocess.Popen[str]]:
    argv = (sys.executable, "-c", HOLD.format(ignoring=ignoring), str(lock))
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def known(lock: Path, pid: int) -> None:
    if holder(lock) != pid:
        pytest.skip("this file system's locks are not in /proc/locks under its own device")


def test_interrupt_holder_interrupts_the_process_that_holds_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with held(lock) as process:
        known(lock, process.pid)
        assert interrupt_holder(lock) == process.pid
        assert process.wait(timeout=300) in (1, 130, -signal.SIGINT)


def test_interrupt_holder_is_none_if_the_process_ignores_the_signal(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with held(lock, ignoring=True) as process:
        known(lock, process.pid)
        assert interrupt_holder(lock) is None
        assert process.poll() is None


def test_interrupt_holder_is_none_if_no_process_holds_the_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert interrupt_holder(tmp_path / "lock") is None
    assert interrupt_holder(tmp_path / "nosuch") is None


@pytest.mark.parametrize(
    "row",
    [
        "1: FLOCK  ADVISORY  WRITE {pid} 00:00:{inode} 0 EOF",
        "1: POSIX  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF",
        "1: FLOCK  ADVISORY  WRITE -1 {device}:{inode} 0 EOF",
        "1: FLOCK  ADVISORY  WRITE 0 {device}:{inode} 0 EOF",
        "1: FLOCK  ADVISORY  READ {pid} {device}:{inode} 0 EOF\n2: FLOCK  ADVISORY  READ 1 {device}:{inode} 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF",
        "torn",
    ],
)
def test_holder_ignores_locks_without_exactly_one_process(row: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    status = lock.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    path = tmp_path / "locks"
    path.write_text(row.format(pid=os.getpid(), device=device, inode=status.st_ino))
    assert holder(lock, locks=path) is None
    path.write_text(f"1: FLOCK  ADVISORY  WRITE 4711 {device}:{status.st_ino} 0 EOF\n")
    assert holder(lock, locks=path) == 4711
