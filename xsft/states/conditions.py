"""Conditions by type, whatever their order. Pure; no message is read.

Kueue and JobSet keep a condition when it ends and turn its status to False: presence says nothing.
source: kueue@v0.16.1, jobset@v0.10.1, seen on a real control plane.
"""

from __future__ import annotations

from collections.abc import Iterable

from xsft.states.model import Condition, KueueWorkload


def true(conditions: Iterable[Condition], type: str) -> Condition | None:
    """Return the True condition of that type; if there are several, always the same one."""
    found = (c for c in conditions if c.type == type and c.status == "True")
    return min(found, key=lambda c: (c.reason, c.at), default=None)


def admitted(workload: KueueWorkload | None) -> Condition | None:
    return true(workload.conditions, "Admitted") if workload else None
