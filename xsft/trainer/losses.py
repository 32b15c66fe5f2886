"""Losses by step, collected from a trainer's output; counts of steps without training targets, and with a meaningless
loss. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from msgspec import Struct, field

from xsft.trainer.lines import CheckpointRestored, Step, StepLoss, TrainerEvent

LARGEST = 1e30
"""Largest loss that is drawn: plotext@6.1 subtracts and scales them as doubles, and stops if that overflows."""


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
