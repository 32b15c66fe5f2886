"""The trainers: the only place that lists them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class RegisteredTrainer(NamedTuple):
    """The two modules of a trainer. They are named, not imported, because the layer that reads workloads is below the
    trainers."""

    answers: str
    """Module that implements it (`xsft.trainer.trainer.PastedTrainer`)."""
    lines: str
    """Module whose `RULES` read its log lines (`xsft.trainer.lines`). Separate, because following a log needs no
    workload."""


DEFAULT_TRAINER = "sft"

TRAINERS: Mapping[str, RegisteredTrainer] = MappingProxyType(
    {DEFAULT_TRAINER: RegisteredTrainer(answers="xsft.trainer.maxtext", lines="xsft.trainer.maxtext_lines")}
)
"""The registry: a trainer's name, which a workload gives as its `trainer`, and its modules."""


def trainers() -> Mapping[str, RegisteredTrainer]:
    """Return all names that a workload may use."""
    return TRAINERS
