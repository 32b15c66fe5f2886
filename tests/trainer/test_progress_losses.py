"""Losses of one log: Tunix's exact values win, and steps repeated after a resume replace earlier ones."""

from __future__ import annotations

from xsft.trainer.lines import CheckpointRestored, SaveBegun, Step, StepLoss
from xsft.trainer.progress import LossFold


def test_losses_prefer_the_exact_values_of_tunix_and_repeated_steps() -> None:
    loss_fold = LossFold()
    first = (StepLoss(step=1, loss=2.123456), Step(step=1, loss=2.123), Step(step=2, loss=1.5), SaveBegun(step=1), None)
    for event in (*first, Step(step=3, loss=1.25), CheckpointRestored(step=1), Step(step=2, loss=1.75)):
        loss_fold.take(event)
    assert (loss_fold.losses, loss_fold.resumed_from) == ({1: 2.123456, 2: 1.75}, 1)
