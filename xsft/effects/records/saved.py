"""The progress of a run, by its saved checkpoints."""

from __future__ import annotations

from xsft.effects.records.objects import Objects

WHOLE_IN_BUCKET = "commit_success.txt"
"""The file that Orbax writes last; a bucket has no rename, so a partly saved step already has its final name."""
WHOLE_HERE = "_CHECKPOINT_METADATA"
"""The file of a complete step; a partly saved step is named `N.orbax-checkpoint-tmp`. source, both:
orbax-checkpoint@0.12.8 path/atomicity.py
"""


def latest_step(objects: Objects, *, output: str, run_name: str) -> int | None:
    """Return the newest step with a complete checkpoint (maxtext@0.2.5 names each by its step), or None. Raises
    Unreachable if the output cannot be read.
    """
    folder = f"{output.rstrip('/')}/{run_name}/checkpoints"
    whole = WHOLE_IN_BUCKET if output.startswith("gs://") else WHOLE_HERE
    steps = (int(name[:-1]) for name in objects.names(folder) if name.endswith("/") and name[:-1].isdecimal())
    found = (s for s in sorted(steps, reverse=True) if objects.read(f"{folder}/{s}/{whole}", limit=1) is not None)
    return next(found, None)
