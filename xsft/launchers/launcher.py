"""The seam of launchers: how a run gets onto a cluster. Each module of one answers the same questions."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from xsft import targets
from xsft.launchers.patch import Change
from xsft.launchers.rendering import Rendering
from xsft.spec.resolve import Run


class Launcher(Protocol):
    """What a launcher answers; modules fulfil it.

    What it renders is a JobSet whose replicated jobs and containers are named as `xsft.launchers.jobset.places` says:
    by these names the audit compares and `status` reads.
    """

    def rendering(self, run: Run) -> Rendering:
        """The manifest, or what renders it. Raises ValueError where the trainer's command cannot be sent."""

    def changes(self, run: Run, *, digest: str) -> tuple[Change, ...]:
        """What is put into the rendered manifest, each with its reason; `digest` is the run's identity."""


def launcher_of(target: str) -> Launcher:
    """Raises KeyError for a target that is no launcher."""
    return cast("Launcher", import_module(targets.LAUNCHERS[target]))
