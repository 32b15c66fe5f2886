"""The progress of a trainer and its losses by step, computed from the lines it printed. Pure.

A log may hold several processes, one after another: a restarted container, the pods of several attempts. Each begins
with MaxText's own first lines; earlier lines about steps after the checkpoint are void then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import isfinite
from statistics import median
from typing import Literal

from msgspec import Struct, field

from xsft.base.names import RowOrder
from xsft.trainer.lines import (
    CheckpointRestored,
    DataEnded,
    EvaluationBegun,
    EvaluationLoss,
    LoopFinished,
    PhaseStarted,
    SaveBegun,
    SaveFinished,
    Step,
    StepLoss,
    TrainerEvent,
    TrainingAborted,
    trainer_event,
)

LARGEST = 1e30
"""Largest loss that is drawn: plotext@6.1 subtracts and scales them as doubles, and stops if that overflows."""
Phase = Literal["starting", "compiling", "training", "evaluating", "saving", "ended"]


class LossFold(Struct, kw_only=True):
    """The losses of one log, added line by line; if a resumed run repeats a step, the repetition counts."""

    losses: dict[int, float] = field(default_factory=dict)
    """Step -> loss, with Tunix's six decimals if it printed the step as well."""
    resumed_from: int | None = None
    exact: dict[int, float] = field(default_factory=dict)

    def take(self, event: TrainerEvent | None) -> None:
        match event:
            case StepLoss(step=step, loss=loss):
                self.exact[step] = loss
            case Step(step=step, loss=loss):
                self.losses[step] = self.exact.get(step, loss)
            case CheckpointRestored(step=step):
                self.losses = {s: loss for s, loss in self.losses.items() if s <= step}
                self.resumed_from = step
            case _:
                pass

    def loss_of(self, step: int) -> float | None:
        """Return the loss of a step, also if only Tunix has printed it."""
        return self.exact.get(step, self.losses.get(step))


def drawable(losses: Mapping[int, float]) -> dict[int, float]:
    """Return the losses that can be drawn, by step."""
    return {step: loss for step, loss in sorted(losses.items()) if abs(loss) < LARGEST}


class Tally(Struct, kw_only=True):
    """Counts of steps, in the order of the log. The three numbers are `cluster.observation.Progress`'s."""

    no_target_steps: int = 0
    not_finite_steps: int = 0
    zero_loss_steps: int = 0
    last: int = 0
    """The last step that was counted."""
    stretch: int = 0
    """Consecutive steps without targets, up to the last one."""
    zeros: int = 0
    """Consecutive steps with a loss of 0, up to the last one."""

    def take(self, step: Step) -> None:
        follows = step.step == self.last + 1
        self.stretch = _longer(self.stretch, counts=step.without_targets, follows=follows)
        self.zeros = _longer(self.zeros, counts=step.loss == 0 and not step.without_targets, follows=follows)
        self.no_target_steps = max(self.no_target_steps, self.stretch)
        self.zero_loss_steps = max(self.zero_loss_steps, self.zeros)
        self.not_finite_steps += 0 if isfinite(step.loss) else 1
        self.last = step.step


def _longer(stretch: int, *, counts: bool, follows: bool) -> int:
    if not counts:
        return 0
    return stretch + 1 if follows else 1


class Progress(Struct, frozen=True, kw_only=True):
    """The trainer's progress, from one source. Steps count from 1, resumptions included."""

    source: Literal["log", "metrics", "record", "checkpoints"]
    read_at: str
    """UTC, ISO 8601."""
    phase: Phase | None = None
    step: int | None = None
    """The last one done."""
    loss: float | None = None
    """Loss of that step."""
    step_seconds: float | None = None
    """Median of the steps read, without each process's first (it compiles)."""
    tflops_per_device: float | None = None
    tokens_per_second: float | None = None
    """Per device, padding included."""
    said_at: str | None = None
    """Time at which the trainer last printed a step or a phase."""
    began_at: str | None = None
    """Start of the process that wrote this log."""
    saved_step: int | None = None
    """Latest complete checkpoint."""
    resumed_from: int | None = None
    resumed_order: RowOrder | None = None
    """Order of the rows since `resumed_from`, if the source has it."""
    data_ended: bool = False
    """The trainer reported that its data ran out."""
    aborted: str | None = None
    """Why the trainer stopped: the loss is NaN, …"""
    no_target_steps: int = 0
    """Longest run of consecutive steps without a target token, among the steps that were read; likewise the next
    two."""
    not_finite_steps: int = 0
    """Steps whose loss was NaN or infinite."""
    zero_loss_steps: int = 0
    """Longest run of consecutive steps with a printed loss of 0.000 and with target tokens."""


FIRST_WORDS = "making the model"
"""`lines.Phase` of the first line that a process of MaxText prints."""

_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})) ?", re.ASCII)
"""source: Kubernetes' log API with `timestamps=true`: RFC 3339 with nanoseconds, then one space."""


class LoggedLine(Struct, frozen=True, kw_only=True):
    """A log line with its time."""

    text: str
    at: str = ""
    """Time of the line; UTC, ISO 8601; empty if unknown."""


def parse_logged_line(line: str) -> LoggedLine:
    """Return the parsed line of a log that was read with timestamps."""
    match = _TIMESTAMP.match(line)
    return LoggedLine(text=line[match.end() :], at=match[1]) if match else LoggedLine(text=line)


def progress_of(lines: Iterable[LoggedLine], *, read_at: str, from_start: bool = False) -> Progress:
    """Return the progress that the lines show. `from_start`: the lines reach back to the start of a process, so that no
    event means that it starts.

    Lines that all carry a time may come in any order, also those of several processes; lines without times keep their
    order.
    """
    log_lines = tuple(lines)
    ordered = sorted(log_lines, key=lambda line: sortable(line.at)) if all(line.at for line in log_lines) else log_lines
    fold = _Fold(phase="starting" if from_start else None)
    for line in ordered:
        event = trainer_event(line.text)
        if event is not None:
            fold.take(event, at=line.at)
    return fold.progress(read_at)


def sortable(at: str) -> str:
    """Return a sort key for times of one zone with any number of decimals: nanoseconds lose their zeros at the end."""
    seconds, _, fraction = at.partition(".")
    return f"{seconds.rstrip('Z')}.{fraction.rstrip('Z'):0<9}"


class _Fold(Struct, kw_only=True):
    """The progress read so far; each new process resets what the one before it reported of itself."""

    phase: Phase | None
    step: int | None = None
    losses: LossFold = field(default_factory=LossFold)
    tally: Tally = field(default_factory=Tally)
    steady: list[Step] = field(default_factory=list)
    """Steps without compilation."""
    first: bool = False
    """Whether the next step is the first of a process whose start was seen."""
    saving: int | None = None
    saved: int | None = None
    evaluating: int | None = None
    """Step after which an evaluation began that has not ended."""
    finished: bool = False
    data_ended: bool = False
    aborted: str | None = None
    said_at: str | None = None

    def take(self, event: TrainerEvent, *, at: str) -> None:
        self.losses.take(event)
        match event:
            case PhaseStarted(name=name):
                self._begin_phase(name)
            case CheckpointRestored(step=step):
                self.step = step
            case StepLoss(step=step):
                self._note_step(step)
            case Step():
                self._measure(event)
                self._note_step(event.step)
            case SaveBegun(step=step):
                self.saving = step
            case SaveFinished(step=step):
                self.saved = max(step, self.saved or 0)
                self.saving = None if self.saving == step else self.saving
            case EvaluationBegun() | EvaluationLoss() | LoopFinished():
                self.evaluating = event.step if isinstance(event, EvaluationBegun) else None
                self.finished = self.finished or isinstance(event, LoopFinished)
            case DataEnded():
                self.data_ended = True
            case TrainingAborted(reason=reason):
                self.aborted = reason
            case _:
                return
        self.said_at = at or self.said_at

    def progress(self, read_at: str) -> Progress:
        return Progress(
            source="log",
            read_at=read_at,
            phase=self._phase(),
            step=self.step,
            loss=None if self.step is None else self.losses.loss_of(self.step),
            step_seconds=middle(step.seconds for step in self.steady),
            tflops_per_device=middle(step.tflops_per_device for step in self.steady),
            tokens_per_second=middle(step.tokens_per_second for step in self.steady),
            said_at=self.said_at,
            saved_step=self.saved,
            resumed_from=self.losses.resumed_from,
            data_ended=self.data_ended,
            aborted=self.aborted,
            no_target_steps=self.tally.no_target_steps,
            not_finite_steps=self.tally.not_finite_steps,
            zero_loss_steps=self.tally.zero_loss_steps,
        )

    def _begin_phase(self, name: str) -> None:
        if name != FIRST_WORDS:
            self.phase, self.first = "compiling", True
            return
        # a new process, which starts from a checkpoint or from nothing
        self.phase, self.first, self.finished, self.saving = "starting", True, False, None
        self.step, self.data_ended, self.aborted, self.evaluating = None, False, None, None
        self.losses, self.tally = LossFold(), Tally()

    def _note_step(self, step: int) -> None:
        """Note a finished step: Tunix prints it first, MaxText a step later."""
        self.step, self.phase = max(step, self.step or 0), "training"
        if self.saving is not None and step > self.saving:
            self.saving = None  # saves run in parallel with the training
        if self.evaluating is not None and step > self.evaluating:
            self.evaluating = None  # nothing was evaluated, or the log used other words

    def _measure(self, step: Step) -> None:
        """Measure a step, except one that compiles: the first of a process, and step 1."""
        self.tally.take(step)
        if not self.first and step.step != 1:
            self.steady.append(step)
        self.first = False

    def _phase(self) -> Phase | None:
        if self.evaluating is not None:
            return "evaluating"
        if self.saving is not None:
            return "saving"
        if not self.finished:
            return self.phase
        return "ended" if self.step is None or (self.saved or 0) >= self.step else "saving"


def middle(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
