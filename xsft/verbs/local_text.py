"""The result of a training on this machine as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from xsft.base.amounts import duration_text, size_text
from xsft.launch.local_folder import newest_trace
from xsft.launch.local_run import LocalResult
from xsft.launcher.servers import BF16_BYTES, weights_bytes
from xsft.planning.steps import Plan
from xsft.records.record import Receipt
from xsft.runs.receipt import SPENT
from xsft.trainer.metrics import open_command, tensorboard_lines
from xsft.trainer.trainer import trainer_of
from xsft.verbs.loss_plot import terminal_plot
from xsft.verbs.submission import resumed_text
from xsft.weights.checkpoint_files import parameters
from xsft.weights.read_checkpoint import read_checkpoint


def show_result(plan: Plan, result: LocalResult, picture: Path | None, *, stream: TextIO) -> None:
    """Print the summary of a run. Its plot is drawn with box characters; a terminal that lacks them gets question
    marks."""
    encoding, lines = stream.encoding or "utf-8", local_lines(plan, result, picture=picture)
    stream.writelines(line.encode(encoding, "replace").decode(encoding) + "\n" for line in lines)
    stream.flush()


def local_lines(plan: Plan, result: LocalResult, *, picture: Path | None) -> Iterator[str]:
    """Yield the lines of the summary at the end."""
    if result.outcome == "interrupted":
        yield from _interrupted_lines(result)
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
    if result.checkpoints:
        yield f"next         xsft sample {plan.run_name} --prompt TEXT, which asks the new weights"


def trace_lines(folder: Path) -> Iterator[str]:
    """Yield lines on the newest trace of the profiler, and the command that opens it; none without a trace."""
    if trace := newest_trace(folder):
        yield f"trace        {trace.path} ({size_text(trace.bytes)})"
        yield f"open it      {shlex.join(open_command(str(folder)))}"


def adapter_text(plan: Plan, result: LocalResult) -> str | None:
    """Return the size of the adapters that LoRA saved; the model itself is unchanged."""
    if plan.run.spec.lora is None or not result.checkpoints:
        return None
    saved = result.checkpoints[-1] / trainer_of(plan.run).WEIGHTS
    adapter = parameters(read_checkpoint(str(saved)).arrays)
    whole = (weights_bytes(plan.run) or 0) // BF16_BYTES
    on_disk = sum(f.stat().st_size for f in saved.rglob("*") if f.is_file())
    text = f"{size_text(on_disk)} on disk" + (f", {adapter:,} parameters" if adapter else "")
    if not (whole and adapter):
        return text
    width = 2 if plan.run.spec.train.weight_dtype == "bfloat16" else 4
    share = 100 * adapter / whole
    return f"{text}; the whole model is {whole:,} parameters, {size_text(whole * width)} ({share:.2g} %)"


def _interrupted_lines(result: LocalResult) -> Iterator[str]:
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


def receipt_line(receipt: Receipt) -> str:
    """Return the time by state in one line, the states that took a second or more."""
    parts = ((state, receipt.seconds.get(state, 0.0)) for state in SPENT)
    return ", ".join(f"{duration_text(seconds)} {state}" for state, seconds in parts if seconds >= 1)
