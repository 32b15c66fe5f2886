"""Long-running programs for a test session that die with it, even when pytest itself is killed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.engine.machine import search_path

STOP_WITHIN_S = 20.0


class DidNotStart(Exception):
    """A program ended, or was not ready in time; the message has the last lines it wrote."""


@dataclass(frozen=True)
class Child:
    process: subprocess.Popen[bytes]
    log: Path

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def wait_until(self, ready: Callable[[], bool], *, within_s: float) -> None:
        """Raises DidNotStart where `ready` stays false or the program ends."""
        give_up = time.monotonic() + within_s
        while not ready():
            if self.process.poll() is not None or time.monotonic() > give_up:
                state = "is not ready" if self.process.poll() is None else f"ended with {self.process.returncode}"
                raise DidNotStart(f"{self.process.args!r} {state}:\n{self.last_words()}")
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_WITHIN_S)


def start(argv: tuple[str, ...], *, log: Path, env: Mapping[str, str] | None = None) -> Child:
    """Start `argv`; the kernel kills it when the thread that called this is gone (setpriv(1), --pdeathsig)."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            ("setpriv", "--pdeathsig", "KILL", *argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": search_path(), **(env or {})},
        )
    return Child(process=process, log=log)
