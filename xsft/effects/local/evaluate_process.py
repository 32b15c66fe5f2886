"""Runs the measuring program in MaxText's environment on this machine, and reads its answer."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from xsft.effects.local.killed import signal_text, true_status
from xsft.effects.local.machine import Machine, compiled_folder, program_environment
from xsft.effects.local.namespace import refuse_where_harmful
from xsft.effects.local.trainer_process import follow
from xsft.effects.machine import clock
from xsft.effects.machine.scratch import scratch_folder
from xsft.evaluation.program import PROGRAM
from xsft.evaluation.report import Measurement, measurement_of
from xsft.trainers.explain import reason

MARK = "xsft evaluate: "
"""Start of the program's own lines."""
FAILED = f"{MARK}failed: "
TAIL_LINES = 2000


class Measuring(Struct, frozen=True, kw_only=True):
    """The end of one measurement."""

    measured: Measurement | None
    """None if it failed."""
    status: int
    """Exit status of the program."""
    why: str = ""
    """Why it failed."""


def command(machine: Machine, *, job: Path, answer: Path) -> tuple[str, ...]:
    """Return the program's command line. -I: neither the user's site nor the checkout can shadow MaxText."""
    return (*machine.contain().prefix, str(machine.python), "-I", str(PROGRAM), str(job), str(answer))


def measure(
    job: Mapping[str, Any], *, machine: Machine, log: Path | None, online: bool, progress: Callable[[str], None]
) -> Measuring:
    """Run the program to its end; its output goes to `log`, its own lines to `progress`. `online`: whether the run
    reads anything but files. Raises Refused and EnvironmentMissing if it cannot start."""
    refuse_where_harmful(machine.contain())
    tail, began = deque[str](maxlen=TAIL_LINES), clock.monotonic()

    def on_line(line: str) -> None:
        tail.append(line)
        if line.startswith(MARK):
            progress(line.removeprefix(MARK))

    with scratch_folder("evaluate") as scratch:
        asked, answer = scratch / "job.json", scratch / "answer.json"
        asked.write_text(json.dumps(job), encoding="utf-8")
        own = {"JAX_COMPILATION_CACHE_DIR": str(compiled_folder(machine)), "JAX_PLATFORMS": "cpu"}
        env = {**program_environment(machine, scratch, online=online), **own}
        status = follow(
            command(machine, job=asked, answer=answer), env=env, log=log or scratch / "log", on_line=on_line
        )
        status = true_status(status, tuple(tail))
        found = json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else {}
    if "models" in found:
        return Measuring(measured=measurement_of(found), status=status)
    failed = next((line.removeprefix(FAILED) for line in reversed(tail) if line.startswith(FAILED)), None)
    why = failed or signal_text(status, since=began) or reason(tuple(tail))
    return Measuring(measured=None, status=status, why=why or f"it ended with exit status {status}")
