"""Parse lines of the trainer's output into typed events. Pure; shared by local runs and by the logs of pods.

The events are the same for every trainer; each trainer reads its own lines, by rules (`xsft.base.targets`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import inf
from typing import cast

from msgspec import Struct

from xsft.base.secrets import redact
from xsft.base.targets import trainers
from xsft.base.terminal_text import without_sequences

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
"""Control characters except the tab."""


def plain_line(line: str) -> str:
    """Return the line without colours, control characters and overwritten parts of progress bars; everything else is
    unchanged."""
    if line.isprintable():
        return line
    return _CONTROLS.sub("", without_sequences(line.rstrip("\r").rpartition("\r")[2]))


def bare_text(text: str) -> str:
    """Return text of the cluster or the trainer without colours, control characters and secrets."""
    return redact(plain_line(text))


class Step(Struct, frozen=True, kw_only=True):
    """A finished step. MaxText prints it one step late; the last one after the loop has ended."""

    step: int
    """Number of the step, 1 … steps."""
    loss: float
    """Loss of this step, three decimals."""
    seconds: float | None = None
    """Seconds of the step; step 1 includes compilation."""
    tflops_per_device: float | None = None
    """Model TFLOP/s of one JAX device."""
    tokens_per_second: float | None = None
    """Tokens per second and device, padding included."""
    target_tokens: int | None = None
    """Tokens the loss is taken over; with gradient accumulation those of the last micro-batch alone."""
    other_losses: bool = False
    """Whether the loss has more terms than that of the targets: a router's, an indexer's."""

    @property
    def without_targets(self) -> bool:
        """Return whether the step had no token to learn from. A loss above 0 shows that another micro-batch of the step
        had some.

        source: maxtext@0.2.5 trainers/post_train/hooks.py: `total_weights` is kept by step, and google-tunix@0.1.7
        sft/peft_trainer.py counts no step per micro-batch: the last one's stands.
        """
        return self.target_tokens == 0 and (self.other_losses or not 0 < self.loss < inf)


class StepLoss(Struct, frozen=True, kw_only=True):
    """A step's loss by Tunix: earlier than `Step`, six decimals."""

    step: int
    loss: float


class EvaluationBegun(Struct, frozen=True, kw_only=True):
    """The start of an evaluation after this step; it prints nothing until its end."""

    step: int


class EvaluationLoss(Struct, frozen=True, kw_only=True):
    step: int
    loss: float


class SaveBegun(Struct, frozen=True, kw_only=True):
    step: int


class SaveFinished(Struct, frozen=True, kw_only=True):
    """A checkpoint that is complete on disk."""

    step: int
    path: str


class CheckpointRestored(Struct, frozen=True, kw_only=True):
    """A resumption from this step; the next step is one more."""

    step: int


class DataEnded(Struct, frozen=True, kw_only=True):
    """The end of the data: MaxText stops, saves, and exits 0."""

    detail: str


class ConfigError(Struct, frozen=True, kw_only=True):
    """A key or value that MaxText refused; a pydantic message continues over the next lines (`explain.reason`)."""

    message: str


class TrainingAborted(Struct, frozen=True, kw_only=True):
    """An abort because the loss is not a number, or infinite."""

    reason: str


class ShapePadding(Struct, frozen=True, kw_only=True):
    """An initial checkpoint of another model size: MaxText pads or repeats its arrays and continues to train."""

    arrays: int


class PhaseStarted(Struct, frozen=True, kw_only=True):
    """The phase of the startup."""

    name: str


class LoopFinished(Struct, frozen=True, kw_only=True):
    seconds: float


TrainerEvent = (
    Step
    | StepLoss
    | EvaluationBegun
    | EvaluationLoss
    | SaveBegun
    | SaveFinished
    | CheckpointRestored
    | DataEnded
    | ConfigError
    | TrainingAborted
    | ShapePadding
    | PhaseStarted
    | LoopFinished
)


LinePattern = tuple[str, str, Callable[[re.Match[str]], TrainerEvent]]
"""A rule for lines: a word of the line, a pattern, which is compiled when the word is first met, and the event."""


def trainer_event(line: str) -> TrainerEvent | None:
    """Return the event in a line; None for most lines. Never raises."""
    for mark, pattern, make in _line_rules(tuple(trainer.lines for trainer in trainers().values())):
        if mark in line and (match := re.search(pattern, line)):
            return make(match)
    return None


@cache
def _line_rules(modules: tuple[str, ...]) -> tuple[LinePattern, ...]:
    return tuple(rule for module in modules for rule in cast("tuple[LinePattern, ...]", import_module(module).RULES))
