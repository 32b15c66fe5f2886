"""The local side of `xsft submit`: train here, show progress, print the result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from xsft.checkpoint.files import parameters
from xsft.effects.facts.checkpoint import read_checkpoint
from xsft.effects.local.machine import Machine
from xsft.effects.local.run import LocalResult, already_done, run_local
from xsft.effects.local.trace import newest_trace
from xsft.effects.machine.clock import monotonic
from xsft.effects.machine.files import write_atomic
from xsft.effects.records.records import record_store
from xsft.errors import INTERRUPTED, RunFailed, XsftError
from xsft.problems import Problem
from xsft.screen.documents import print_json
from xsft.screen.failure import print_problems, problem_documents
from xsft.screen.live import live
from xsft.screen.loss_plot import picture, terminal_plot
from xsft.screen.progress import shown
from xsft.screen.receipt_text import receipt_line
from xsft.screen.resumed_text import resumed_text
from xsft.spec.amounts import size_text
from xsft.steps import Plan
from xsft.submitting import machine_for
from xsft.trainers.explain import EMPTY
from xsft.trainers.killed import KILLED, LESS
from xsft.trainers.size import default_parameters
from xsft.trainers.tensorboard import open_command, tensorboard_lines
from xsft.trainers.trainer import trainer_of

LOOK_AT_THE_DATA = "set a file or a split with rows: data.hf_train_files, data.hf_path, data.hf_name, data.train_split"


def submit_local(plan: Plan, *, json: bool, machine: Machine | None = None, stderr: TextIO | None = None) -> int:
    """Run the plan to its end; return 0, or 130 if the user interrupted it. `json`: print one document on stdout.

    Raises RunFailed if it failed or ended short, Refused and EnvironmentMissing as `run_local` does.
    """
    messages = stderr or sys.stderr
    result, picture = train_here(plan, machine=machine, messages=messages)
    show_result(plan, result, picture=picture, stream=messages if json or result.outcome != "completed" else sys.stdout)
    match result.outcome:
        case "completed":
            if json:
                print_json("submit", submit_document(plan, result, picture=picture))
            return 0
        case "interrupted":
            return INTERRUPTED
        case _:
            raise RunFailed(failure(result), fix=next_step(result))


def train_here(plan: Plan, *, machine: Machine | None, messages: TextIO) -> tuple[LocalResult, Path | None]:
    """Train, unless the run is finished; return the result and the picture of its losses. Warnings and progress go to
    stderr. Raises as `run_local` does.
    """
    result = already_done(plan) or _trained(plan, machine, messages)
    print_problems(_indexed(result, machine))
    return result, _keep_picture(result) if result.outcome == "completed" else None


def show_result(plan: Plan, result: LocalResult, *, picture: Path | None, stream: TextIO) -> None:
    """Print the summary of a run. Its plot is drawn with box characters; a terminal that lacks them gets question
    marks."""
    encoding, lines = stream.encoding or "utf-8", local_lines(plan, result, picture=picture)
    stream.writelines(line.encode(encoding, "replace").decode(encoding) + "\n" for line in lines)
    stream.flush()


def _indexed(result: LocalResult, machine: Machine | None) -> tuple[Problem, ...]:
    """Add the run to the index of runs from this machine; return a warning if it cannot be written."""
    store = record_store(machine.env if machine else None)
    output = str(result.folder.parent)
    found = store.read_run(output, result.folder.name)
    return store.index(replace(found[-1], output=output), str(result.record)) if found else ()


def machine_of_plan(plan: Plan) -> Machine:
    """Return the plan's image, or MaxText's environment; fetch or build it if it is missing. Raises as
    `machine_for`.
    """
    with shown("image" if plan.run.spec.image.ref else "MaxText environment") as progress:
        return machine_for(plan, progress=progress)


def local_lines(plan: Plan, result: LocalResult, *, picture: Path | None) -> Iterator[str]:
    """Yield the lines of the summary at the end."""
    if result.outcome == "interrupted":
        yield from _interrupted(result)
        return
    if plot := terminal_plot(result.losses):
        yield plot
    if result.outcome != "completed":
        return
    how = ", finished earlier; nothing was run" if result.action == "finished" else ""
    yield f"{plan.run_name}: {result.steps} of {result.steps_asked} steps{how}{_losses(result)}"
    if resumed := resumed_text(result.resumed_from, result.resumed_order):
        yield resumed
    yield f"checkpoints  {_checkpoints(result)}"
    if adapter := adapter_text(plan, result):
        yield f"adapter      {adapter}"
    yield from tensorboard_lines(plan.run, folder=str(result.folder))
    yield from trace_lines(result.folder)
    if result.receipt:
        yield f"time         {receipt_line(result.receipt)}"
    if picture:
        yield f"loss curve   {picture}"
    yield f"record       {result.record}"


def trace_lines(folder: Path) -> Iterator[str]:
    """Yield lines on the newest trace of the profiler, and the command that opens it; none without a trace."""
    if trace := newest_trace(folder):
        yield f"trace        {trace.path} ({size_text(trace.bytes)})"
        yield f"open it      {shlex.join(open_command(str(folder)))}"


def failure(result: LocalResult) -> str:
    """Return e.g. `tiny: 20 of 50 steps: the data ended`."""
    return f"{result.folder.name}: {result.steps} of {result.steps_asked} steps: {result.reason}"


def adapter_text(plan: Plan, result: LocalResult) -> str | None:
    """Return the size of the adapters that LoRA saved; the model itself is unchanged."""
    if plan.run.spec.lora is None or not result.checkpoints:
        return None
    trainer = trainer_of(plan.run)
    saved = result.checkpoints[-1] / trainer.WEIGHTS
    adapter = parameters(read_checkpoint(str(saved)).arrays)
    catalogued = plan.run.model.params_b if plan.run.model else None
    whole = int(catalogued * 1e9) if catalogued else default_parameters(trainer.trainer_keys(plan.run))
    on_disk = sum(f.stat().st_size for f in saved.rglob("*") if f.is_file())
    text = f"{size_text(on_disk)} on disk" + (f", {adapter:,} parameters" if adapter else "")
    if not (whole and adapter):
        return text
    width = 2 if plan.run.spec.train.weight_dtype == "bfloat16" else 4
    share = 100 * adapter / whole
    return f"{text}; the whole model is {whole:,} parameters, {size_text(whole * width)} ({share:.2g} %)"


def submit_document(plan: Plan, result: LocalResult, *, picture: Path | None) -> dict[str, Any]:
    """Return the document `xsft.submit/1` without its schema."""
    return {
        "run_name": plan.run_name,
        "jobset": None,
        "action": result.action,
        "uid": None,
        "spec_digest": plan.spec_digest,
        "record": str(result.record),
        "result": {"steps": result.steps, "first_loss": result.first_loss, "last_loss": result.last_loss},
        "resumed_from": result.resumed_from,
        "resumed_order": result.resumed_order,
        "checkpoints": [str(path) for path in result.checkpoints],
        "log": str(result.log) if result.log else None,
        "plot": str(picture) if picture else None,
        "private_pids": result.private_pids,
        "problems": problem_documents(result.warnings),
    }


def _trained(plan: Plan, machine: Machine | None, messages: TextIO) -> LocalResult:
    machine = machine or machine_of_plan(plan)
    before = machine.contain().warnings
    print_problems(before)
    with live(steps=plan.run.spec.train.steps, stream=messages, monotonic=monotonic) as on_event:
        result = run_local(plan, machine=machine, on_event=on_event)
    print_problems(w for w in result.warnings if w not in before)
    return result


def _keep_picture(result: LocalResult) -> Path | None:
    """Write the picture and return its path; None if there is nothing to draw or it cannot be written, which never
    fails a finished run."""
    path = result.record.parent / "loss.png"
    if result.action == "finished" and path.exists():
        return path
    try:
        write_atomic(path, picture(result.losses, title=result.folder.name))
    except (XsftError, ImportError, OSError, ValueError) as problem:
        sys.stderr.write(f"warning: no picture of the loss: {problem}\n")
        return None
    return path


def _interrupted(result: LocalResult) -> Iterator[str]:
    yield f"interrupted after step {result.steps} of {result.steps_asked}; the trainer is stopped"
    if result.checkpoints:
        last = result.checkpoints[-1]
        yield f"last checkpoint: {last} (step {last.name}); run the command again to resume"
    else:
        yield "no checkpoint was saved yet; the same command starts over"


def _losses(result: LocalResult) -> str:
    if result.first_loss is None or result.last_loss is None:
        return ""
    return f", loss {result.first_loss:.3f} -> {result.last_loss:.3f}"


def _checkpoints(result: LocalResult) -> str:
    if not result.checkpoints:
        return "none"
    return f"{result.checkpoints[0].parent}/{{{','.join(path.name for path in result.checkpoints)}}}"


def next_step(result: LocalResult) -> str:
    """Return what to do after a run that did not complete."""
    log = f"the whole output: {result.log}"
    match result.outcome:
        case "short":
            change = "set data.num_epoch higher, or train.steps lower, and submit it again under the same name"
            again = "without this it would read the same rows from the first one"
            return f"{change}; {again}; {log}"
        case _ if (result.reason or "").startswith(KILLED):
            return f"{LESS} {log}"
        case _ if result.reason == EMPTY:
            return f"{LOOK_AT_THE_DATA}; {log}"
        case _:
            return f"xsft why {shlex.quote(str(result.folder))} shows the most likely cause and what to do; {log}"
