"""The folder of a run on this machine: its content, whether a plan may continue in it, and the state of one attempt."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from xsft.base.errors import Refused, UsageError
from xsft.base.problems import Problem, warning
from xsft.machine import clock
from xsft.machine.files import system_words, write_atomic
from xsft.machine.regular import open_regular, read_text
from xsft.records.document import to_json
from xsft.records.record import Attempt, Outcome, Record
from xsft.records.resumption import MAY_CHANGE_WORDS, changed_keys, complete_record, merge_losses
from xsft.runs.compare import later_losses
from xsft.runs.failures import reason
from xsft.runs.receipt import ReceiptFold
from xsft.runs.rows import ENOUGH, is_worthless, text_of, worthless, zero_loss_warning
from xsft.spec.digest import canonical
from xsft.trainer.kernel_kills import TRAINER, signal_text
from xsft.trainer.lines import SaveFinished, ShapePadding, Step, TrainerEvent, TrainingAborted, trainer_event
from xsft.trainer.metrics import tensorboard_folder
from xsft.trainer.progress import LoggedLine, LossFold, Progress, Tally, progress_of
from xsft.trainer.trainer import trainer_of

if TYPE_CHECKING:
    from xsft.planning.steps import Plan

TAIL_LINES = 2000
"""Lines kept to explain a failure; a traceback through JAX has several hundred."""

_DISK_FULL = re.compile(r"OSError: \[Errno 28\]")
"""When the disk is full, TensorBoard's thread ends with this error, and the trainer then waits for that thread forever.
source: tensorboardX@2.6 event_file_writer.py, EventFileWriter.add_event (a queue of 10 that is no longer read).
"""


class RunFolder(Struct, frozen=True, kw_only=True):
    path: Path
    """`<output>/<run_name>`, absolute."""

    @property
    def own(self) -> Path:
        return self.path / "xsft"

    @property
    def record(self) -> Path:
        return self.own / "run.json"

    @property
    def lock(self) -> Path:
        return self.own / "lock"

    def checkpoints(self) -> tuple[Path, ...]:
        """Return the complete checkpoints, oldest first."""
        return tuple(folder for _, folder in sorted(self._complete()))

    def latest_step(self) -> int:
        """Return the step of the latest one; 0 without a checkpoint."""
        return max((step for step, _ in self._complete()), default=0)

    def _complete(self) -> Iterator[tuple[int, Path]]:
        """Yield the complete checkpoints. A save in progress is named `N.orbax-checkpoint-tmp`. source:
        orbax-checkpoint@0.12.8 path/atomicity.py
        """
        saved = self.path / "checkpoints"
        for folder in saved.iterdir() if saved.is_dir() else ():
            if folder.name.isdecimal() and (folder / "_CHECKPOINT_METADATA").is_file():
                yield int(folder.name), folder


def run_folder_of(plan: Plan) -> RunFolder:
    """Return the folder. Raises UsageError if the output is not a folder of this machine; Orbax accepts absolute paths
    only.
    """
    output = plan.run.output or ""
    if not Path(output).is_absolute():
        raise UsageError(
            f"output {output!r} is not an absolute path, and a local run writes to this machine",
            fix="use a folder, e.g. output: ./runs",
        )
    return RunFolder(path=Path(output) / plan.run_name)


def admit(plan: Plan, folder: RunFolder) -> Record:
    """Return the record to continue: the folder's, or a new one for an empty folder. Raises Refused if the folder holds
    the run of another workload, or one that xsft did not record.
    """
    now = json.loads(canonical(plan.run))
    record = recorded_run(folder)
    if record is None:
        if folder.latest_step():
            raise Refused(
                f"{folder.path} holds checkpoints (step {folder.latest_step()}) that xsft did not record",
                fix="choose another name or output; to start from them, set model.checkpoint: "
                f"{folder.path}/checkpoints/{folder.latest_step()}/{trainer_of(plan.run).WEIGHTS}",
            )
        return Record(
            run_name=plan.run_name, spec_digest=plan.spec_digest, spec=now, steps=plan.run.spec.train.steps, losses={}
        )
    changed = changed_keys(record.spec, now)
    if changed and not folder.latest_step():
        return replace(record, losses={})  # nothing was saved, so nothing is lost: a corrected workload may try again
    if changed:
        raise Refused(
            f"{folder.path} belongs to a run of another workload: {'; '.join(changed)}",
            fix="use another name, or restore the old values in the workload. A key that it does not set may have a "
            f"new default in this xsft; {MAY_CHANGE_WORDS}",
        )
    steps = plan.run.spec.train.steps
    if steps < folder.latest_step():
        raise Refused(
            f"{folder.path} has already reached step {folder.latest_step()}, and train.steps is {steps}",
            fix=f"set at least {folder.latest_step()} steps, or use another name",
        )
    return record


def recover_losses(record: Record, folder: RunFolder) -> Record:
    """Return the record with the losses of an attempt whose xsft was killed: from its log, and from the event files for
    the steps after the log's end, because its trainer may have gone on.
    """
    if record.outcome != "running":
        return record
    last = record.attempts[-1]
    logged = LossFold()
    for line in _log_lines(Path(last.log)):
        logged.take(trainer_event(line))
    losses = {**later_losses(folder.path, after=max(logged.losses, default=logged.resumed_from or 0)), **logged.losses}
    saved_losses = {step: loss for step, loss in losses.items() if step <= folder.latest_step()}
    progress = whole_log(Path(last.log))
    nothing = None if progress.aborted else worthless(progress, asked=record.steps)
    ended = replace(
        last,
        outcome="failed",
        reason=text_of(progress, nothing) if nothing else "xsft or the machine stopped",
        state_reason=nothing,
        last_step=max(logged.losses, default=None),
    )
    return replace(
        record,
        attempts=(*record.attempts[:-1], replace(ended, resumed_from=logged.resumed_from)),
        losses=merge_losses(record.losses, saved_losses, resumed_from=logged.resumed_from),
    )


def recorded_run(folder: RunFolder) -> Record | None:
    """Return the folder's record, or None without one. Raises Refused for one that cannot be read."""
    try:
        return complete_record(read_text(folder.record))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise  # not the record is damaged: the output lies below a file
    except (ValueError, OSError) as broken:
        # Without its record, a folder with checkpoints is refused, too.
        damaged = folder.path if folder.latest_step() else folder.record
        move = shlex.join(("mv", str(damaged), f"{damaged}.damaged"))
        raise Refused(
            f"{folder.record} cannot be read: {system_words(broken)}",
            fix=f"to start the run again, move it away: {move}",
        ) from broken


def whole_log(log: Path) -> Progress:
    """Return the progress in an attempt's whole log; empty if there is no log."""
    return progress_of((LoggedLine(text=line) for line in _log_lines(log)), read_at="", from_start=True)


def _log_lines(log: Path) -> list[str]:
    if not log.is_file():
        return []
    with open_regular(log) as file:
        return file.read().decode("utf-8", "replace").splitlines()


class ProfilerTrace(Struct, frozen=True, kw_only=True):
    """A trace in XPlane's format."""

    path: Path
    bytes: int


def newest_trace(folder: Path) -> ProfilerTrace | None:
    """Return the newest trace of a run; None without one. `folder`: `<output>/<run name>`.

    source: jax@0.11 profiler.py: `<log_dir>/plugins/profile/<time>/<host>.xplane.pb`.
    """
    traces = Path(tensorboard_folder(str(folder)), "plugins", "profile").glob("*/*.xplane.pb")
    newest = max(traces, key=lambda path: (path.parent.name, path.name), default=None)
    return ProfilerTrace(path=newest, bytes=newest.stat().st_size) if newest else None


class TrainerEnd(Struct, frozen=True, kw_only=True):
    outcome: Outcome
    reason: str | None = None
    """Why it did not complete; None if it did."""
    state_reason: str | None = None
    """As `Attempt.state_reason`."""


class AttemptWatch(Struct, kw_only=True):
    """The state of one attempt so far; the record on disk is updated at every checkpoint."""

    folder: RunFolder
    record: Record
    on_event: Callable[[TrainerEvent], None]
    logged: LossFold = field(default_factory=LossFold)
    starts_from: int
    """The step of the latest checkpoint when the attempt began."""
    padded_arrays: int = 0
    tally: Tally = field(default_factory=Tally)
    spent: ReceiptFold = field(default_factory=lambda: ReceiptFold(at=clock.monotonic()))
    aborted: str | None = None
    began: float = field(default_factory=clock.monotonic)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))

    def line(self, text: str) -> None:
        """Process one line. Raises OSError if the trainer reports that the disk is full."""
        self.tail.append(text)
        if _DISK_FULL.match(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        event = trainer_event(text)
        self.logged.take(event)
        self.spent.take(event, at=clock.monotonic())
        match event:
            case None:
                return
            case Step():
                self.tally.take(event)
            case ShapePadding(arrays=arrays):
                self.padded_arrays = arrays
            case TrainingAborted(reason=reason):
                self.aborted = reason
            case SaveFinished():
                self.save()
            case _:
                pass
        self.on_event(event)

    @property
    def last_step(self) -> int:
        return max(self.logged.losses, default=self.starts_from)

    @property
    def said(self) -> Progress:
        """Return the progress, as if read from its log after it has ended."""
        return Progress(
            source="log",
            read_at="",
            phase="ended",
            step=self.last_step,
            resumed_from=self.starts_from,
            aborted=self.aborted,
            no_target_steps=self.tally.no_target_steps,
            not_finite_steps=self.tally.not_finite_steps,
            zero_loss_steps=self.tally.zero_loss_steps,
        )

    def whole(self) -> Record:
        """Return the record with what is known now."""
        attempt = replace(self.record.attempts[-1], resumed_from=self.logged.resumed_from, last_step=self.last_step)
        losses = merge_losses(self.record.losses, self.logged.losses, resumed_from=self.starts_from)
        return replace(self.record, attempts=(*self.record.attempts[:-1], attempt), losses=losses)

    def save(self) -> None:
        write_atomic(self.folder.record, to_json(self.whole()))

    def close(self, end: TrainerEnd, *, status: int | None, at: str) -> None:
        """Close the record. `status`: the trainer's exit status; None if it has none."""
        last = replace(
            self.whole().attempts[-1],
            outcome=end.outcome,
            reason=end.reason,
            state_reason=end.state_reason,
            exit_status=status,
            finished_at=at,
            receipt=self.spent.receipt(until=clock.monotonic()),
        )
        self.record = replace(self.whole(), attempts=(*self.record.attempts[:-1], last))
        write_atomic(self.folder.record, to_json(self.record))


DONE = TrainerEnd(outcome="completed")


def judge_end(watch: AttemptWatch, *, steps: int, status: int) -> TrainerEnd:
    """Return the end. It is completed only with the last requested step, its checkpoint, and a change by training:
    MaxText exits with 0 when its data ends, and when no step had a target token. `steps`: requested steps. `status`:
    the trainer's exit status.
    """
    why = reason(tuple(watch.tail))
    printed = watch.said
    nothing = None if printed.aborted else worthless(printed, asked=steps)
    if nothing:
        crashed = f"; it ended with exit status {status} ({why or 'cause unknown'})" if status else ""
        return TrainerEnd(outcome="failed", reason=f"{text_of(printed, nothing)}{crashed}", state_reason=nothing)
    if status != 0:
        return _crash_end(watch, steps=steps, status=status, why=why)
    if watch.last_step < steps:
        return TrainerEnd(outcome="short", reason=why or f"{TRAINER} ended without an error message")
    if watch.folder.latest_step() < steps:
        return TrainerEnd(outcome="short", reason=f"the checkpoint of step {steps} is missing")
    return DONE


def _crash_end(watch: AttemptWatch, *, steps: int, status: int, why: str | None) -> TrainerEnd:
    """Return the end of a trainer that crashed. After its last checkpoint the result is complete all the same; the exit
    is kept as the reason.
    """
    killed = signal_text(TRAINER, status, since=watch.began)
    plain = f"{TRAINER} ended with exit status {status}"
    is_complete = watch.said.aborted is None and min(watch.last_step, watch.folder.latest_step()) >= steps
    if is_complete:
        return TrainerEnd(outcome="completed", reason=killed or (f"{plain}: {why}" if why else plain))
    return TrainerEnd(outcome="failed", reason=killed or why or plain)


def ended_then(attempt: Attempt, *, steps: int) -> TrainerEnd:
    """Return the end of a run that has its last checkpoint. Its log is read too: an attempt that was interrupted after
    that checkpoint was not judged.
    """
    if is_worthless(attempt.state_reason):
        return TrainerEnd(outcome="failed", reason=attempt.reason, state_reason=attempt.state_reason)
    printed = whole_log(Path(attempt.log))
    nothing = None if printed.aborted else worthless(printed, asked=steps)
    return TrainerEnd(outcome="failed", reason=text_of(printed, nothing), state_reason=nothing) if nothing else DONE


def warnings_of(watch: AttemptWatch) -> tuple[Problem, ...]:
    """Return warnings for printed lines that make the result doubtful."""
    warnings: list[Problem] = []
    if watch.padded_arrays:
        message = (
            "The initial checkpoint has another model size: MaxText padded or repeated "
            f"{watch.padded_arrays} arrays and continued."
        )
        fix = "Convert the checkpoint of this model and train again; these results are useless."
        warnings.append(warning("checkpoint-padded", "model.checkpoint", message, fix))
    last = watch.record.last
    if last.outcome == "completed" and last.reason:
        message = f"The checkpoint of the last step is saved; afterwards {last.reason}."
        warnings.append(warning("failed-after-last-step", "", message, "Use the checkpoint; no rerun is needed."))
    if watch.tally.zero_loss_steps >= ENOUGH:
        warnings.append(zero_loss_warning(watch.record.run_name, watch.tally.zero_loss_steps))
    return tuple(warnings)
