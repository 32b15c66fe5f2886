"""The only module that starts other processes. argv is a tuple and never passes through a shell; the environment is
always explicit.
"""

from __future__ import annotations

import getpass
import os
import shlex
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Timer
from typing import IO, Any

from xsft.base.errors import EnvironmentMissing, TimedOut
from xsft.machine import clock
from xsft.machine.bounded import UnusableAnswer, join_bounded
from xsft.machine.parallel import start

PART = 65536
"""Maximum bytes read at once of a program's output."""


@dataclass(frozen=True, kw_only=True)
class ProcessResult:
    """A process that has ended."""

    argv: tuple[str, ...]
    status: int
    """Exit status; negative: the signal that ended it."""
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.status == 0


def own_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment with `changes` applied; the process's own environment is not changed."""
    return {**os.environ, **changes}


def user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "unknown"


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    timeout_s: float | None = None,
    stdin: str = "",
) -> ProcessResult:
    """Run a program to its end and capture both streams. Raises EnvironmentMissing if the program cannot be started,
    TimedOut if it was killed after `timeout_s`.
    """
    return _run(argv, timeout_s, stdin=stdin, env=dict(env), cwd=cwd, stderr=subprocess.PIPE)


def at_terminal(argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float) -> ProcessResult:
    """Run a program that may prompt the user: stdin and stderr are this process's own, only stdout is captured. Raises
    as `run`.
    """
    return _run(argv, timeout_s, stdin=None, env=dict(env), cwd=None, stderr=None)


def _run(argv: Sequence[str], timeout_s: float | None, *, stdin: str | None, **how: Any) -> ProcessResult:
    """Run a program as `run` does. `stdin`: None, this process's own."""
    until = clock.monotonic() + (threading.TIMEOUT_MAX / 2 if timeout_s is None else timeout_s)
    source = None if stdin is None else subprocess.PIPE
    with _start(argv, bufsize=0, stdin=source, stdout=subprocess.PIPE, **how) as process:
        try:
            writer = start(partial(_write_input, process, stdin or ""))
            readers = [start(partial(_read_output, process, stream)) for stream in (process.stdout, process.stderr)]
            # A child of the program may keep its streams open when it is gone, so their ends are waited for.
            if not all(call.ended(until - clock.monotonic()) for call in (writer, *readers)):
                raise timed_out(argv, timeout_s)
            stdout, stderr = (reader.result() for reader in readers)
            process.wait(max(0.0, until - clock.monotonic()))
        except subprocess.TimeoutExpired:
            raise timed_out(argv, timeout_s) from None
        except UnusableAnswer as unusable:
            message = f"{argv[0]} was stopped: its output {unusable}"
            raise EnvironmentMissing(message, fix=f"run it manually: {shlex.join(argv)}") from None
        finally:
            process.kill()  # it has ended, unless the wait was given up
    return ProcessResult(argv=tuple(argv), status=process.returncode, stdout=stdout, stderr=stderr)


def _write_input(process: subprocess.Popen[bytes], text: str) -> None:
    if process.stdin:
        with suppress(OSError), process.stdin as stream:  # the program may end without reading it
            stream.write(text.encode())


def _read_output(process: subprocess.Popen[bytes], stream: IO[bytes] | None) -> str:
    """Return the stream's text; kill the process if it is too long."""
    if stream is None:
        return ""
    try:
        content = join_bounded(iter(partial(stream.read, PART), b""))
    except UnusableAnswer:
        process.kill()
        raise
    return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _start(argv: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
    try:
        return subprocess.Popen(tuple(argv), **how)
    except OSError as problem:
        raise _not_started(argv, problem) from problem


def follow(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    on_line: Callable[[str], None],
    cwd: Path | None = None,
    timeout_s: float | None = None,
    stdin: IO[bytes] | None = None,
) -> ProcessResult:
    """Run a program to its end, and pass on each line of both streams as it arrives; `stdout` holds the last 200 of
    them. `stdin`: a file that it reads. The process is killed if `on_line` raises or the user interrupts. Raises as
    `run` does.
    """
    process = _start(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    with killed_after(timeout_s, process.kill) as expired, process:
        try:
            tail = _pass_on(process, on_line)
        except BaseException:
            process.kill()
            raise
    if expired.is_set():
        raise timed_out(argv, timeout_s)
    return ProcessResult(argv=tuple(argv), status=process.returncode, stdout="\n".join(tail), stderr="")


@contextmanager
def killed_after(timeout_s: float | None, kill: Callable[[], None]) -> Iterator[Event]:
    """Call `kill` when the time is up; yield the event that says so."""
    expired = Event()

    def expire() -> None:
        expired.set()
        kill()

    if timeout_s is None:
        yield expired
        return
    timer = Timer(timeout_s, expire)
    timer.daemon = True
    try:
        timer.start()
        yield expired
    finally:
        timer.cancel()


def stop_session(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """Send SIGINT, then SIGKILL; a second Ctrl-C skips the wait. Returns when all processes of the session have
    ended.
    """
    if process.poll() is not None:
        return
    try:
        _signal(process, signal.SIGINT)
        process.wait(timeout=grace_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def kill_session(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGKILL)


def _pass_on(process: subprocess.Popen[str], on_line: Callable[[str], None]) -> deque[str]:
    tail: deque[str] = deque(maxlen=200)
    for line in process.stdout or ():
        tail.append(line.rstrip("\n"))
        on_line(tail[-1])
    return tail


def timed_out(argv: Sequence[str], timeout_s: float | None) -> TimedOut:
    return TimedOut(f"{argv[0]} timed out after {timeout_s:g} s", fix=f"run it manually: {shlex.join(argv)}")


def _not_started(argv: Sequence[str], problem: OSError) -> EnvironmentMissing:
    if isinstance(problem, FileNotFoundError):
        return EnvironmentMissing(
            f"{argv[0]} was not found", fix="`xsft doctor` shows what is missing and how to install it"
        )
    return EnvironmentMissing(
        f"{argv[0]} could not be started: {problem.strerror}", fix="`xsft doctor` checks each tool"
    )


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
