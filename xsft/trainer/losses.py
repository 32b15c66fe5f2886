"""Losses by step, collected from a trainer's output. Pure."""

from __future__ import annotations

from collections.abc import Mapping

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
