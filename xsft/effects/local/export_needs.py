"""Checks before an export starts that this machine has the memory and the disk for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from xsft.effects.machine.memory import memory_bytes
from xsft.errors import EnvironmentMissing
from xsft.export.plan import ExportPlan
from xsft.spec.amounts import size_text

PROCESS_BYTES = 2**30
"""Bytes of Python, JAX and MaxText without any weights."""
LOGITS_FACTOR = 2.5
"""Memory of a comparison of logits, relative to the weights in float32: the model, and a copy while it is read."""


def refuse_without_room(plan: ExportPlan) -> None:
    """Raise EnvironmentMissing if the memory or the disk cannot hold the weights once: such an export cannot end well.

    source: maxtext@0.2.5 checkpoint_conversion/to_huggingface.py loads the whole checkpoint.
    """
    size, memory = plan.weights_bytes, memory_bytes()
    if size is None:
        return
    if memory is not None and memory < size + PROCESS_BYTES:
        raise EnvironmentMissing(
            f"Exporting {plan.training} takes at least {size_text(size + PROCESS_BYTES)} of memory; "
            f"there are {size_text(memory)}.",
            fix="Export on a larger machine, or by a job of the training's cluster: xsft checkpoint export FILE.yaml."
            if plan.inputs.weights.startswith("gs://")
            else "Export on a larger machine.",
            id="export-memory",
        )
    there, free = _disk(Path(plan.directory))
    if free < size:
        raise EnvironmentMissing(
            f"Exporting {plan.training} takes about {size_text(size)} below {there}; {size_text(free)} are free.",
            fix="Free some space, or name another folder with --output.",
            id="export-disk",
        )


def why_no_logits(plan: ExportPlan) -> str:
    """Return why logits cannot be compared on this machine; empty if they can. Both engines compute in float32."""
    memory, size = memory_bytes(), plan.weights_bytes
    if memory is None or size is None:
        return ""
    needs = int(size * 2 * LOGITS_FACTOR) + PROCESS_BYTES
    if needs <= memory:
        return ""
    takes, has = size_text(needs), size_text(memory)
    return f"comparing logits takes about {takes} of memory, and there are {has}; only tensors were compared"


def _disk(path: Path) -> tuple[Path, int]:
    """Return the nearest folder that exists, and the bytes that are free there."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    return there, shutil.disk_usage(there).free
