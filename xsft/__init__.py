"""xsft: one YAML per fine-tuning run on Cloud TPU slices.

The functions below take and return the values that the command line prints; docs/api.md shows each. Nothing heavy is
imported before one is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["cancel", "check", "compare", "load", "logs", "plan", "status", "submit", "wait", "why"]

if TYPE_CHECKING:
    from xsft.api import check, load, plan, status, submit
    from xsft.python import cancel, compare, logs, wait, why
else:
    _ABOUT_RUNS = frozenset({"cancel", "compare", "logs", "wait", "why"})

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'xsft' has no attribute {name!r}")
        from xsft import api, python

        return getattr(python if name in _ABOUT_RUNS else api, name)
