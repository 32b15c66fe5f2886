"""How far a trainer has come, folded from the lines it printed. Pure.

A log may hold several processes, one after another: a restarted container, the pods of several attempts. Each begins
with MaxText's own first lines; what an earlier one said of steps after the checkpoint no longer holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from msgspec import Struct, field

from xsft.states.model import Phase as PhaseName
from xsft.states.model import Progress
from xsft.trainers.lines import (
    Aborted,
    DataEnded,
    Evaluated,
    Evaluating,
    Event,
    LoopFinished,
    Phase,
    Restored,
    Saved,
    Saving,
    Step,
    StepLoss,
    parse,
)
from xsft.trainers.tally import Tally

FIRST_WORDS = "making the model"
"""`lines.Phase` of the first line that a process of MaxText prints."""

_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})) ?", re.ASCII)
"""source: Kubernetes' log API with `timestamps=true`: RFC 3339 with nanoseconds, then one space."""


class Said(Struct, frozen=True, kw_only=True):
    """A line, and when it was said."""

    text: str
    at: str = ""
    """UTC, ISO 8601; empty where nothing tells."""


def said(line: str) -> Said:
    """A line of a log that was read with timestamps."""
    match = _TIMESTAMP.match(line)
    return Said(text=line[match.end() :], at=match[1]) if match else Said(text=line)


def progress_of(lines: Iterable[Said], *, read_at: str, from_start: bool = False) -> Progress:
    """`from_start`: the lines reach back to the beginning of a process, so that no event means that it starts.

    Lines that all carry a time may come in any order, also those of several processes; others are taken in theirs.
    """
    given = tuple(lines)
    ordered = sorted(given, key=lambda line: sortable(line.at)) if all(line.at for line in given) else given
    fold = _Fold(phase="starting" if from_start else None)
    for line in ordered:
        event = parse(line.text)
        if event is not None:
            fold.take(event, at=line.at)
    return fold.progress(read_at)


def sortable(at: str) -> str:
    """Orders times of one zone whatever the number of their decimals: nanoseconds lose their zeros at the end."""
    whole, _, rest = at.partition(".")
    return f"{whole.rstrip('Z')}.{rest.rstrip('Z'):0<9}"


class _Fold(Struct, kw_only=True):
    """What has been said so far; each process forgets what the one before it said of itself."""

    phase: PhaseName | None
    step: int | None = None
    losses: dict[int, float] = field(default_factory=dict)
    exact: dict[int, float] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    steady: list[Step] = field(default_factory=list)
    """Steps that did not compile."""
    first: bool = False
    """The next step is the first of a process that was seen to begin."""
    saving: int | None = None
    saved: int | None = None
    evaluating: int | None = None
    """The step after which an evaluation began that has not ended."""
    resumed_from: int | None = None
    finished: bool = False
    data_ended: bool = False
    aborted: str | None = None
    said_at: str | None = None

    def take(self, event: Event, *, at: str) -> None:
        match event:
            case Phase(name=name):
                self._begin() if name == FIRST_WORDS else self._reach("compiling")
            case Restored(step=step):
                self.resumed_from = self.step = step
            case StepLoss(step=step, loss=loss):
                self.exact[step] = loss
                self._done(step)
            case Step():
                self._measure(event)
                self._done(event.step)
            case Saving(step=step):
                self.saving = step
            case Saved(step=step):
                self.saved = max(step, self.saved or 0)
                self.saving = None if self.saving == step else self.saving
            case Evaluating() | Evaluated() | LoopFinished():
                self._between_steps(event)
            case DataEnded():
                self.data_ended = True
            case Aborted(reason=reason):
                self.aborted = reason
            case _:
                return
        self.said_at = at or self.said_at

    def progress(self, read_at: str) -> Progress:
        loss = self.exact.get(self.step, self.losses.get(self.step)) if self.step is not None else None
        return Progress(
            source="log",
            read_at=read_at,
            phase=self._phase(),
            step=self.step,
            loss=loss,
            step_seconds=middle(step.seconds for step in self.steady),
            tflops_per_device=middle(step.tflops_per_device for step in self.steady),
            tokens_per_second=middle(step.tokens_per_second for step in self.steady),
            said_at=self.said_at,
            saved_step=self.saved,
            resumed_from=self.resumed_from,
            data_ended=self.data_ended,
            aborted=self.aborted,
            no_target_steps=self.tally.no_target_steps,
            not_finite_steps=self.tally.not_finite_steps,
            zero_loss_steps=self.tally.zero_loss_steps,
        )

    def _begin(self) -> None:
        """A new process: it starts from a checkpoint, or from nothing."""
        self.phase, self.first, self.finished, self.saving = "starting", True, False, None
        self.step, self.resumed_from, self.data_ended, self.aborted = None, None, False, None
        self.evaluating = None
        self.losses, self.exact, self.tally = {}, {}, Tally()

    def _reach(self, phase: PhaseName) -> None:
        self.phase, self.first = phase, True

    def _done(self, step: int) -> None:
        """Tunix says it first, MaxText a step later."""
        self.step, self.phase = max(step, self.step or 0), "training"
        if self.saving is not None and step > self.saving:
            self.saving = None  # it saves beside the training
        if self.evaluating is not None and step > self.evaluating:
            self.evaluating = None  # there was nothing to evaluate, or it was said in other words

    def _between_steps(self, event: Evaluating | Evaluated | LoopFinished) -> None:
        self.evaluating = event.step if isinstance(event, Evaluating) else None
        self.finished = self.finished or isinstance(event, LoopFinished)

    def _measure(self, step: Step) -> None:
        """The first step of a process compiles, and step 1 always is one."""
        self.losses[step.step] = step.loss
        self.tally.take(step)
        if not self.first and step.step != 1:
            self.steady.append(step)
        self.first = False

    def _phase(self) -> PhaseName | None:
        if self.evaluating is not None:
            return "evaluating"
        if self.saving is not None:
            return "saving"
        if not self.finished:
            return self.phase
        return "ended" if self.step is None or (self.saved or 0) >= self.step else "saving"


def middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
