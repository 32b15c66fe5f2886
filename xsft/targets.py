"""The target of a run: a cluster, by a launcher, or this machine. Pure; the only place that lists the launchers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

LAUNCHERS: Mapping[str, str] = MappingProxyType({"xpk": "xsft.launchers.xpk"})
"""The registry: a launcher's name, which a workload gives as its `target`, and the module that implements it
(`xsft.launchers.launcher.Launcher`). Modules are named, not imported, because the layer that reads workloads is below
the launchers.
"""

FIRST = "xpk"
"""The launcher of every JobSet without a label that names another one."""

THIS_MACHINE = "local"


def targets() -> tuple[str, ...]:
    """Return all names that a workload may use."""
    return (*LAUNCHERS, THIS_MACHINE)


def launcher_named(label: str | None) -> str:
    """Return the launcher that a JobSet's label names; xpk without a label, or if this xsft does not know it."""
    return label if label is not None and label in LAUNCHERS else FIRST


def on_cluster(target: str) -> bool:
    """Return whether the target is a cluster; False for one that a record names and this xsft does not know."""
    return target in LAUNCHERS


def on_this_machine(target: str) -> bool:
    return target == THIS_MACHINE


class Targeted:
    """Mixin for classes with a target, with properties that tell where the run goes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def target(self) -> str: ...

    @property
    def on_cluster(self) -> bool:
        return on_cluster(self.target)

    @property
    def on_this_machine(self) -> bool:
        return on_this_machine(self.target)
