"""Check whether a conversion can run as a CPU job of a cluster, before the cluster is asked. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.catalog.cpu import GIB, cpu_type_for, cpu_types
from xsft.conversion.plan import ConversionPlan
from xsft.naming import run_name_limit
from xsft.problems import Problem, error, warning
from xsft.spec.resolve import Run


def conversion_problems(made: ConversionPlan, run: Run) -> Iterator[Problem]:
    """Yield a problem for each part of the conversion that a pod could not do."""
    source = made.inputs.source
    if source.is_folder:
        message = f"{source.repo} is a folder on this machine, which pods cannot read."
        fix = "Use a Hugging Face repository, or convert it here: --set target=local, with output on gs://."
        yield error("conversion-folder", "model.hf.repo", message, fix)
    limit = run_name_limit(mode="mcjax", num_slices=1, hosts=1)
    if len(made.run_name) > limit:
        message = f"{made.run_name!r} has {len(made.run_name)} characters; the limit of a CPU job is {limit}."
        fix = "Use a shorter name: --run-name NAME. The result has the same path."
        yield error("conversion-name", "name", message, fix)
    if made.estimate is None:
        message = f"The size of {run.spec.model.name} is unknown, and so is the memory for its conversion."
        fix = "Convert it on a machine with enough memory: --set target=local, with output on gs://."
        yield error("conversion-size", "model.name", message, fix)
    elif cpu_type_for(made.estimate.memory) is None:
        yield _too_large(made.estimate.memory)


def _too_large(memory: int) -> Problem:
    largest = cpu_types()[-1]
    message = (
        f"The conversion takes about {memory / GIB:,.0f} GiB of memory; the largest machine type of xpk, "
        f"{largest.machine}, has {largest.pod_memory / GIB:,.0f} GiB for a pod."
    )
    return warning("conversion-machine", "model.hf", message, "Add a node pool of larger machines to the cluster.")
