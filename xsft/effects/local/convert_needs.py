"""Checks before a conversion starts that this machine has what it needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from xsft.conversion.estimate import ConversionEstimate
from xsft.conversion.plan import ConversionPlan
from xsft.effects.machine.memory import memory_bytes
from xsft.problems import Problem, error, warning
from xsft.spec.amounts import size_text


def lacks(plan: ConversionPlan, *, cache: Path) -> tuple[Problem, ...]:
    """Return a problem for the memory and the disk space that the conversion needs and this machine lacks; a warning if
    the model's size is unknown, and so what it needs."""
    needs = plan.estimate
    return (unchecked(plan),) if needs is None else (*_memory(plan, needs), *_disk(plan, needs, cache))


def unchecked(plan: ConversionPlan) -> Problem:
    """Return the warning that nothing was checked."""
    message = f"The size of {plan.inputs.model} is unknown, so memory and disk were not checked before the conversion."
    fix = "Compare the size of the safetensors files with this machine: memory takes 1.2 times what is saved."
    return warning("conversion-unchecked", "model.hf", message, fix)


def _memory(plan: ConversionPlan, needs: ConversionEstimate) -> Iterator[Problem]:
    memory = memory_bytes()
    if memory is not None and memory < needs.memory:
        takes, has = size_text(needs.memory), size_text(memory)
        message = f"Converting {plan.inputs.model} takes about {takes} of memory; there are {has}."
        fix = "Convert on a larger machine, or accept the risk: checks: {conversion-memory: why}."
        yield error("conversion-memory", "model.hf", message, fix)


def _disk(plan: ConversionPlan, needs: ConversionEstimate, cache: Path) -> Iterator[Problem]:
    """Yield a problem if disk space is missing for the output or the hub's cache; added up if they are on one file
    system.
    """
    needed: dict[int, tuple[Path, int]] = {}
    for path, size in ((Path(plan.directory), needs.output), (cache, needs.download)):
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        device = there.stat().st_dev
        needed[device] = (there, needed.get(device, (there, 0))[1] + size)
    for there, size in needed.values():
        free = shutil.disk_usage(there).free
        if free < size:
            takes, has = size_text(size), size_text(free)
            message = f"Converting {plan.inputs.model} takes about {takes} below {there}; {has} are free."
            fix = "Free some space or name another output; or accept the risk: checks: {conversion-disk: why}."
            yield error("conversion-disk", "output", message, fix)
