"""Processes of a cluster: started with a log each, found again by pid and start time, ended with nothing left.

A process id alone says nothing: it may be another's by now. Together with the time it was started it is one process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

END_S = 10.0
"""How long a process may take to end before it is killed."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that starts a component."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Added to the environment of this process."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process that was started; it may have ended since."""

    pid: int
    born: str
    """When the kernel started it, in its own words."""

    @property
    def alive(self) -> bool:
        return born(self.pid) == self.born


@dataclass(frozen=True, kw_only=True)
class Spawner:
    """Starts processes in `folder`, each with its log there; `bound`: they end when this process does."""

    folder: Path
    bound: bool
    children: dict[int, subprocess.Popen[bytes]]
    """Those of this process, so that it can reap them."""

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def spawn(self, command: Command) -> Process:
        self.log(command.name).parent.mkdir(exist_ok=True)
        with self.log(command.name).open("ab") as log:
            child: subprocess.Popen[bytes] = _in_a_thread_that_stays(
                subprocess.Popen[bytes],
                (*self._leash, *command.argv),
                env={**os.environ, **command.env},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is ours to handle
            )
        self.children[child.pid] = child
        return Process(pid=child.pid, born=born(child.pid) or "gone")

    @property
    def _leash(self) -> tuple[str, ...]:
        """The kernel kills a bound process when its parent dies, however it dies. Linux only; others lose that. Parent
        is the thread that started it (prctl(2), PR_SET_PDEATHSIG).
        """
        setpriv = shutil.which("setpriv") if self.bound else None
        return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()

    def end(self, process: Process, *, with_signal: int = signal.SIGTERM) -> None:
        """End `process` and wait until it is gone; one that is another's by now is left alone."""
        if born(process.pid) not in (process.born, None):
            return
        if process.alive:
            os.kill(process.pid, with_signal)
            if not self._gone_within(process, END_S):
                os.kill(process.pid, signal.SIGKILL)
                self._gone_within(process, END_S)
        if child := self.children.pop(process.pid, None):
            child.wait()

    def _gone_within(self, process: Process, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while process.alive:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True


@cache
def _starter() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="starts components")


def _in_a_thread_that_stays(do: Callable[..., T], *arguments: Any, **settings: Any) -> T:
    return _starter().submit(do, *arguments, **settings).result()


def born(pid: int) -> str | None:
    """Return when process `pid` was started; None if there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else _born_by_ps(pid)
    return None if fields[0] in "ZX" else fields[19]  # proc(5): state and starttime


def _born_by_ps(pid: int) -> str | None:
    completed = subprocess.run(("ps", "-o", "lstart=", "-p", str(pid)), capture_output=True, text=True, check=False)
    return completed.stdout.strip() or None
