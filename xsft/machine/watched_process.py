"""The trainer as a child process: started in its own session, its lines kept and passed on, stopped within seconds."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from xsft.base.errors import EnvironmentMissing
from xsft.machine.process import kill_session, killed_after, stop_session, timed_out

GRACE_S = 8.0
"""Seconds from SIGINT to SIGKILL. Python raises KeyboardInterrupt and MaxText ends in 2 to 3 s; a checkpoint being
written when it is killed is ignored on resume (it is still named `N.orbax-checkpoint-tmp`)."""

SIGNALS_FROM = 128
LONGEST = 64 << 10
"""Maximum bytes of a line; a longer one is split, since a program may print for hours without ending a line."""
_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A progress bar ends its line with a carriage return; one at the end of a chunk may be the first half of CR LF."""


def follow(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], None],
    grace_s: float = GRACE_S,
    cwd: Path | None = None,
    timeout_s: float | None = None,
) -> int:
    """Run to the end; every line is written to `log`, then passed to `on_line`. Returns the exit status, 128 + n for
    signal n.

    If anything is raised meanwhile, above all by Ctrl-C, the child is stopped first. Raises EnvironmentMissing if it
    cannot be started, TimedOut if it was killed after `timeout_s`.
    """
    with log.open("wb") as log_file:
        process = _start_trainer(argv, env, output=subprocess.PIPE, cwd=cwd)
        with killed_after(timeout_s, partial(kill_session, process)) as expired:
            try:
                with process.stdout as output:  # type: ignore[union-attr]
                    # read1: what is available, without waiting for more
                    chunks = iter(partial(output.read1, LONGEST), b"")  # type: ignore[union-attr]
                    keep_lines(chunks, log=log_file, on_line=on_line)
                status = process.wait()
            finally:
                stop_session(process, grace_s=grace_s)
    if expired.is_set():
        raise timed_out(argv, timeout_s)
    if status < 0:
        return SIGNALS_FROM - status
    return status


@contextmanager
def run_process(
    argv: Sequence[str], *, env: Mapping[str, str], log: Path, grace_s: float = GRACE_S
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process with its output in `log`; stop it at the end. Raises as `follow`."""
    with log.open("wb") as log_file:
        process = _start_trainer(argv, env, output=log_file.fileno())
        try:
            yield process
        finally:
            stop_session(process, grace_s=grace_s)


def _start_trainer(
    argv: Sequence[str], env: Mapping[str, str], *, output: int, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start it in its own session: Ctrl-C on the terminal reaches only xsft, which then decides."""
    try:
        return subprocess.Popen(
            tuple(argv),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as failed:
        raise EnvironmentMissing(
            f"{argv[0]} could not be started: {failed.strerror}",
            fix="`xsft doctor` shows what is missing; `xsft setup` installs it",
        ) from failed


def keep_lines(chunks: Iterable[bytes], *, log: BinaryIO, on_line: Callable[[str], None]) -> None:
    """Write every byte to `log` as soon as its line has ended, then pass the line without its end to `on_line`."""
    for line in lines(chunks):
        log.write(line)
        log.flush()
        on_line(line.decode("utf-8", "replace").rstrip("\r\n"))


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line with its end; the last one may have no end."""
    line = b""
    for chunk in chunks:
        searched = max(0, len(line) - 1)
        line += chunk
        start = 0
        for end in _END.finditer(line, searched):
            yield from _split_line(line[start : end.end()])
            start = end.end()
        *long, line = _split_line(line[start:])
        yield from long
    if line:
        yield line


def _split_line(line: bytes) -> Iterator[bytes]:
    """Yield the parts: at least one, and none empty unless the whole line is."""
    for start in range(0, max(1, len(line)), LONGEST):
        yield line[start : start + LONGEST]
