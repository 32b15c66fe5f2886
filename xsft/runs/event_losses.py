"""The losses in the TensorBoard event files of a run on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from xsft.machine.regular import read_bytes
from xsft.trainer.tensorboard import event_losses, tensorboard_folder

MAX_BYTES = 256 * 1024 * 1024
"""Limit of a file; a step writes about 2 KB."""


def later_losses(folder: Path, *, after: int) -> dict[int, float]:
    """Return the losses of steps after that one; a later file counts for a step in several. `folder`: the run's."""
    losses: dict[int, float] = {}
    for path in sorted(Path(tensorboard_folder(str(folder))).rglob("events.out.tfevents.*")):
        with suppress(OSError):
            losses |= event_losses(read_bytes(path, limit=MAX_BYTES))
    return {step: loss for step, loss in losses.items() if step > after}
