"""xsft: one YAML per fine-tuning run on Cloud TPU slices.

`xsft.load`, `xsft.plan`, `xsft.submit` and `xsft.status` take and return the values the command line prints; nothing
heavy is imported before one is used.
"""

from __future__ import annotations

from typing import Any

_API = ("load", "plan", "status", "submit")

__all__ = ["load", "plan", "status", "submit"]


def __getattr__(name: str) -> Any:
    if name not in _API:
        raise AttributeError(f"module 'xsft' has no attribute {name!r}")
    from xsft import api

    return getattr(api, name)
