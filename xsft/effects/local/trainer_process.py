"""The trainer as a child process: started in a session of its own, its lines passed on, stopped within seconds."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from xsft.effects.machine.log_lines import LONGEST, keep
from xsft.errors import EnvironmentMissing

GRACE_S = 8.0
"""Seconds from SIGINT to SIGKILL. Python raises KeyboardInterrupt and MaxText ends in 2 to 3 s; a checkpoint being
written when it is killed is ignored on resume (it is still named `N.orbax-checkpoint-tmp`)."""

SIGNALS_FROM = 128


def follow(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None],
    grace_s: float = GRACE_S,
) -> int:
    """Run to the end; every line goes to `log`, then to `on_line`. The exit status, 128 + n for signal n.

    When anything is raised meanwhile, Ctrl-C above all, the child is stopped first. Raises EnvironmentMissing when it
    cannot be started.
    """
    with log.open("wb") as kept:
        process = _start(argv, env)
        try:
            with process.stdout as output:  # type: ignore[union-attr]
                keep(_read(output), log=kept, on_line=on_line)  # type: ignore[arg-type]
            status = process.wait()
        finally:
            stop(process, grace_s=grace_s)
    return status if status >= 0 else SIGNALS_FROM - status


def stop(process: subprocess.Popen[bytes], *, grace_s: float = GRACE_S) -> None:
    """SIGINT, then SIGKILL; a second Ctrl-C skips the wait. Returns when the whole session's processes are gone."""
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


def _start(argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A session of its own: Ctrl-C on the terminal reaches xsft alone, which then decides."""
    try:
        return subprocess.Popen(
            tuple(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as failed:
        raise EnvironmentMissing(
            f"{argv[0]} could not be started: {failed.strerror}",
            fix="`xsft doctor` tells what is missing; `xsft setup` mends it",
        ) from failed


def _read(output: BufferedReader) -> Iterator[bytes]:
    """What is there, without waiting for more."""
    while chunk := output.read1(LONGEST):
        yield chunk


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
