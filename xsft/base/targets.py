"""The registered launchers and trainers, and the target of a run: a cluster, or this machine. Pure; nothing else lists
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple


class RegisteredLauncher(NamedTuple):
    """A launcher: its module, and the rules that a workload must keep. The module is named, not imported, because the
    layer that reads workloads is below the launchers."""

    module: str
    """Module that implements it (`xsft.launcher.launcher.Launcher`)."""
    tools: tuple[str, ...] = ()
    """Environments of `xsft setup` that it runs; the records of its runs have their versions."""
    name_limit: int = 63
    """Maximum characters of a JobSet's name. The limits of Kubernetes and JobSet hold too (`xsft.base.names`)."""
    priorities: tuple[str, ...] = ()
    """Values of `priority` that it takes; if empty, the name of any PriorityClass."""


FIRST = "xpk"
"""The launcher of every JobSet without a label that names another one."""

LAUNCHERS: Mapping[str, RegisteredLauncher] = MappingProxyType(
    {
        FIRST: RegisteredLauncher(
            module="xsft.launcher.xpk",
            tools=("xpk",),
            # source: xpk@1.16.0 parser/validators.py name_type (40 passes, 41 is refused)
            name_limit=40,
            # PriorityClasses of the values 100, 250, 500, 750 and 1000. source: xpk@1.16.0 core/kueue_manager.py
            priorities=("very-low", "low", "medium", "high", "very-high"),
        ),
    }
)
"""The registry: a launcher's name, which a workload gives as its `target`, and its module and rules."""

THIS_MACHINE = "local"


def targets() -> tuple[str, ...]:
    """Return all names that a workload may use."""
    return (*LAUNCHERS, THIS_MACHINE)


def registered_launcher(target: str) -> RegisteredLauncher:
    """Return the target's entry of the registry; for this machine that of the first launcher, so that the workload can
    also run on a cluster."""
    return LAUNCHERS.get(target, LAUNCHERS[FIRST])


def launcher_named(label: str | None) -> str:
    """Return the launcher that a JobSet's label names; xpk without a label, or if this xsft does not know it."""
    return label if label is not None and label in LAUNCHERS else FIRST


def on_cluster(target: str) -> bool:
    """Return whether the target is a cluster; False for one that a record names and this xsft does not know."""
    return target in LAUNCHERS


def on_this_machine(target: str) -> bool:
    return target == THIS_MACHINE


class TargetProperties:
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
