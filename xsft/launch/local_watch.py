"""The state of one attempt so far, saved to disk as it changes."""

from __future__ import annotations

import errno
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from msgspec import Struct, field

from xsft.launch.local_folder import RunFolder
from xsft.machine import clock
from xsft.machine.files import write_atomic
from xsft.records.document import to_json
from xsft.records.record import Outcome, Record
from xsft.records.resumption import merge_losses
from xsft.runs.receipt import ReceiptFold
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
