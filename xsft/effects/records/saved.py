"""How far a run has come, by its saved checkpoints."""

from __future__ import annotations

from xsft.effects.records.objects import Objects

WHOLE_IN_BUCKET = "commit_success.txt"
"""Orbax writes it last; a bucket has no rename, so a half-saved step has its final name already."""
WHOLE_HERE = "_CHECKPOINT_METADATA"
"""A half-saved step is named `N.orbax-checkpoint-tmp`. source, both: orbax-checkpoint@0.12.8 path/atomicity.py"""


def latest_step(objects: Objects, *, output: str, run_name: str) -> int | None:
    """Of the checkpoints that were saved whole (maxtext@0.2.5 names each by its step); None where there is none.

    Raises Unreachable where nobody can look.
    """
    folder = f"{output.rstrip('/')}/{run_name}/checkpoints"
    whole = WHOLE_IN_BUCKET if output.startswith("gs://") else WHOLE_HERE
    steps = (int(name[:-1]) for name in objects.names(folder) if name.endswith("/") and name[:-1].isdecimal())
    found = (s for s in sorted(steps, reverse=True) if objects.read(f"{folder}/{s}/{whole}", limit=1) is not None)
    return next(found, None)
