"""The interface of trainers, which run in the container; each trainer's module implements it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from xsft.base.targets import trainers
from xsft.catalog.releases import Release
from xsft.spec.base import Value
from xsft.spec.resolve import Run

HF_TOKEN_DIRECTORY = "/etc/xsft/hf-token"  # noqa: S105 - a folder
SECRET_DIRECTORY = "/etc/xsft/secrets"  # noqa: S105 - a folder
"""Folder of the mounted Secrets of `secrets.env`, one folder for each variable."""
"""Mount path of the Secret in the trainer's container."""


class Trainer(Protocol):
    """Interface of a trainer; modules implement it.

    It saves to `<output>/<run_name>/checkpoints/<step>` and resumes from the newest of these steps, as MaxText does:
    `status` and resubmissions read that folder.
    """

    MODULES: frozenset[str]
    """Every module that it starts; a release with another module is not planned."""
    STEP: str | None
    """Its step in the verdicts of the TPU compiler (`CompilerVerdict.step`); None if `xsft fit` cannot compile it."""
    WEIGHTS: str
    """Folder of a saved step that holds the trained weights."""

    OVERRIDABLE: frozenset[str]
    """Keys that xsft sets by default and an override may replace; a field of the workload decides the others."""

    def module(self, release: Release) -> str:
        """Return the module that `python3 -m` starts."""

    def takes(self, key: str, *, version: str) -> bool:
        """Return whether its command line takes this key in this release."""

    def trainer_argv(self, run: Run) -> tuple[str, ...]:
        """Return the arguments that the process receives, byte for byte."""

    def trainer_keys(self, run: Run) -> Mapping[str, Value]:
        """Return the keys of that command line, in order, as the checks see them."""

    def trainer_env(self, run: Run) -> dict[str, str]:
        """Return all variables that the process must see in its environment."""

    def container_env(self, run: Run) -> dict[str, str]:
        """Return the part of the environment that belongs to the container."""

    def command_env(self, run: Run) -> tuple[tuple[str, str], ...]:
        """Return the part of the environment that precedes the command."""

    def conversion_argv(self, run: Run) -> tuple[str, ...] | None:
        """Return the command that makes the initial checkpoint; None if the run names one, or needs none."""


def trainer_of(run: Run) -> Trainer:
    return trainer_named(run.spec.trainer)


def trainer_named(name: str) -> Trainer:
    """Return the trainer of this name. Raises KeyError for an unknown name."""
    return cast("Trainer", import_module(trainers()[name].answers))


def trainer_with(module: str) -> str | None:
    """Return the name of the trainer that starts this module; None if there is none."""
    return next((name for name in trainers() if module in trainer_named(name).MODULES), None)
