"""xsft: one YAML per fine-tuning run on Cloud TPU slices.

The functions below take and return the values that the command line prints; docs/api.md shows each. Nothing heavy is
imported before one is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "cancel",
    "check",
    "compare",
    "inspect_data",
    "load",
    "logs",
    "plan",
    "show_data",
    "status",
    "submit",
    "wait",
    "why",
]

if TYPE_CHECKING:
    from xsft.launch.submit import submit
    from xsft.launch.training_data import inspect_data, show_data
    from xsft.planning.api import check, load, plan
    from xsft.runs.verbs import cancel, compare, logs, status, wait, why
else:
    _MODULES = {"submit": "launch.submit"}
    _MODULES |= dict.fromkeys(("inspect_data", "show_data"), "launch.training_data")
    _MODULES |= dict.fromkeys(("check", "load", "plan"), "planning.api")

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'xsft' has no attribute {name!r}")
        return getattr(import_module(f"xsft.{_MODULES.get(name, 'runs.verbs')}"), name)

    def __dir__() -> list[str]:
        return __all__
