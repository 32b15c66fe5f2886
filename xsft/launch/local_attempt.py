"""The state of one attempt so far, saved to disk as it changes."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, field

from xsft.base.problems import Problem, warning
from xsft.launch.local_folder import RunFolder, whole_log
from xsft.machine import clock
from xsft.machine.files import write_atomic
from xsft.records.document import to_json
from xsft.records.record import Attempt, Outcome, Record
from xsft.records.resumption import merge_losses
from xsft.runs.failures import reason
from xsft.runs.receipt import ReceiptFold
from xsft.runs.rows import ENOUGH, is_worthless, text_of, worthless, zero_loss_warning
from xsft.trainer.kernel_kills import TRAINER, signal_text
from xsft.trainer.lines import SaveFinished, ShapePadding, Step, TrainerEvent, TrainingAborted, trainer_event
from xsft.trainer.losses import LossFold, Tally
from xsft.trainer.progress import Progress

TAIL_LINES = 2000
"""Lines kept to explain a failure; a traceback through JAX has several hundred."""

_DISK_FULL = re.compile(r"OSError: \[Errno 28\]")
"""When the disk is full, TensorBoard's thread ends with this error, and the trainer then waits for that thread forever.
source: tensorboardX@2.6 event_file_writer.py, EventFileWriter.add_event (a queue of 10 that is no longer read).
"""


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
    whole = watch.said.aborted is None and min(watch.last_step, watch.folder.latest_step()) >= steps
    if whole:
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
    padding = (_padding_warning(watch.padded_arrays),) if watch.padded_arrays else ()
    zeros = watch.tally.zero_loss_steps
    last = watch.record.last
    after = (_after_last_step_warning(last.reason),) if last.outcome == "completed" and last.reason else ()
    return (*padding, *after, *((zero_loss_warning(watch.record.run_name, zeros),) if zeros >= ENOUGH else ()))


def _after_last_step_warning(reason: str) -> Problem:
    message = f"The checkpoint of the last step is saved; afterwards {reason}."
    return warning("failed-after-last-step", "", message, "Use the checkpoint; no rerun is needed.")


def _padding_warning(arrays: int) -> Problem:
    message = (
        f"The initial checkpoint has another model size: MaxText padded or repeated {arrays} arrays and continued."
    )
    fix = "Convert the checkpoint of this model and train again; these results are useless."
    return warning("checkpoint-padded", "model.checkpoint", message, fix)
