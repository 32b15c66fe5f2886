"""The interface of launchers, which put a run on a cluster; each launcher's module implements it."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from msgspec import Struct

from xsft.base import targets
from xsft.base.pointers import JsonValue
from xsft.launcher.cpujob import CpuJob
from xsft.launcher.patch import Change
from xsft.launcher.slicejob import SliceJob
from xsft.spec.resolve import Run


class XpkRendering(Struct, frozen=True, kw_only=True):
    """A rendering by xpk: the manifest is what xpk writes for this line."""

    xpk_argv: tuple[str, ...]


class ReadyRendering(Struct, frozen=True, kw_only=True):
    """A manifest that the launcher rendered itself."""

    document: JsonValue

    @property
    def xpk_argv(self) -> None:
        """Return None: no xpk line renders it."""


Rendering = XpkRendering | ReadyRendering
Job = CpuJob | SliceJob
"""A job that is not a training."""


class Launcher(Protocol):
    """Interface of a launcher; modules implement it.

    It renders a JobSet whose replicated jobs and containers are named as `xsft.records.jobset_paths.places` says: the
    audit and `status` find them by these names.
    """

    def rendering(self, run: Run) -> Rendering:
        """Return the manifest, or the command that renders it. Raises ValueError if the trainer's command cannot be
        sent."""

    def cpu_rendering(self, job: CpuJob) -> Rendering:
        """Return the rendering of a job on a CPU node, as `rendering` does."""

    def slice_rendering(self, job: SliceJob) -> Rendering:
        """Return the rendering of a job on the training's slices, as `rendering` does."""

    def changes(self, run: Run, *, digest: str) -> tuple[Change, ...]:
        """Return the changes to the rendered manifest, each with its reason; `digest` is the run's identity."""


def launcher_of(target: str) -> Launcher:
    """Return the launcher of the target. Raises KeyError for an unknown one."""
    return cast("Launcher", import_module(targets.LAUNCHERS[target].module))
