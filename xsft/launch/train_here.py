"""The local side of `xsft submit`: train here, and keep a picture of the losses."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from xsft.base.errors import XsftError
from xsft.base.problems import Problem
from xsft.launch.connecting import machine_for
from xsft.launch.listener import ActionListener
from xsft.launch.local_machine import Machine
from xsft.launch.local_run import LocalResult, already_done, run_local
from xsft.machine.files import write_atomic
from xsft.planning.steps import Plan
from xsft.records.record_files import record_store
from xsft.runs.failures import NO_ROWS
from xsft.runs.pictures import loss_picture
from xsft.trainer.kernel_kills import LESS, TRAINER_KILLED

LOOK_AT_THE_DATA = "set a file or a split with rows: data.hf_train_files, data.hf_path, data.hf_name, data.train_split"


def train_here(plan: Plan, *, machine: Machine | None, listener: ActionListener) -> tuple[LocalResult, Path | None]:
    """Train, unless the run is finished; return the result and the picture of its losses. Raises as `run_local`
    does."""
    result = already_done(plan) or _train_plan(plan, machine, listener)
    listener.warn(_index_run(result, machine))
    return result, _keep_picture(result, listener) if result.outcome == "completed" else None


def _index_run(result: LocalResult, machine: Machine | None) -> tuple[Problem, ...]:
    """Add the run to the index of runs from this machine; return a warning if it cannot be written."""
    store = record_store(machine.env if machine else None)
    output = str(result.folder.parent)
    found = store.read_run(output, result.folder.name)
    return store.index(replace(found[-1], output=output), str(result.record)) if found else ()


def machine_of_plan(plan: Plan, listener: ActionListener) -> Machine:
    """Return the plan's image, or MaxText's environment; fetch or build it if it is missing. Raises as
    `machine_for`.
    """
    with listener.working("image" if plan.run.spec.image.ref else "MaxText environment") as progress:
        return machine_for(plan, progress=progress)


def failure(result: LocalResult) -> str:
    """Return e.g. `tiny: 20 of 50 steps: the data ended`."""
    return f"{result.folder.name}: {result.steps} of {result.steps_asked} steps: {result.reason}"


def _train_plan(plan: Plan, machine: Machine | None, listener: ActionListener) -> LocalResult:
    machine = machine or machine_of_plan(plan, listener)
    before = machine.contain().warnings
    listener.warn(before)
    with listener.training(plan.run.spec.train.steps) as on_event:
        result = run_local(plan, machine=machine, on_event=on_event)
    listener.warn(w for w in result.warnings if w not in before)
    return result


def _keep_picture(result: LocalResult, listener: ActionListener) -> Path | None:
    """Write the picture and return its path; None if there is nothing to draw or it cannot be written, which never
    fails a finished run."""
    path = result.record.parent / "loss.png"
    if result.action == "finished" and path.exists():
        return path
    try:
        write_atomic(path, loss_picture(result.losses, title=result.folder.name))
    except (XsftError, ImportError, OSError, ValueError) as problem:
        listener.say(f"warning: no picture of the loss: {problem}")
        return None
    return path


def next_step(result: LocalResult) -> str:
    """Return what to do after a run that did not complete."""
    log = f"the whole output: {result.log}"
    match result.outcome:
        case "short":
            change = "set data.num_epoch higher, or train.steps lower, and submit it again under the same name"
            again = "without this it would read the same rows from the first one"
            return f"{change}; {again}; {log}"
        case _ if (result.reason or "").startswith(TRAINER_KILLED):
            return f"{LESS} {log}"
        case _ if result.reason == NO_ROWS:
            return f"{LOOK_AT_THE_DATA}; {log}"
        case _:
            return f"xsft why {shlex.quote(str(result.folder))} shows the most likely cause and what to do; {log}"
