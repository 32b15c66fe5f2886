"""Starts the trainer of a local run: as a child process, or in the workload's image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from xsft.effects.local.folder import RunFolder
from xsft.effects.local.machine import Machine, compiled_folder, trainer_environment
from xsft.effects.local.namespace import Containment, refuse_where_harmful
from xsft.effects.local.trainer_process import follow
from xsft.effects.machine.paths import private_folder
from xsft.steps import Plan
from xsft.trainers.record import Attempt


def contained(machine: Machine, folder: RunFolder) -> Containment:
    """Return how to contain the trainer. Raises Refused if it would end another process, or an earlier one still writes
    to the folder.
    """
    found = machine.contain()
    refuse_where_harmful(found)
    if machine.container:
        machine.container.refuse_where_running(folder.path)
    return found


def train(
    plan: Plan,
    attempt: Attempt,
    folder: RunFolder,
    *,
    machine: Machine,
    found: Containment,
    scratch: Path,
    on_line: Callable[[str], None],
    grace_s: float,
) -> int:
    """Run the trainer and return its exit status. Raises as `trainer_process.follow` and `docker_run.run_in_container`
    do.
    """
    env, log = trainer_environment(plan, machine=machine, scratch=scratch), Path(attempt.log)
    if machine.container is None:
        return follow((*found.prefix, *attempt.argv), env=env, log=log, on_line=on_line, grace_s=grace_s)
    hub, compiled = private_folder(machine.cache / "huggingface"), private_folder(compiled_folder(machine))
    return machine.container.run(
        plan,
        argv=attempt.argv,
        env=env,
        writable=(folder.path, hub, compiled, scratch),
        log=log,
        on_line=on_line,
        grace_s=grace_s,
    )
