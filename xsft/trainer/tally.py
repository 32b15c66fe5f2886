"""Counts of a process's steps without training targets, and of those with a meaningless loss. Pure."""

from __future__ import annotations

from math import isfinite

from msgspec import Struct

from xsft.trainer.lines import Step


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
