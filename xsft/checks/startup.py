"""Check the time in which the processes of a run must find each other. Pure.

source: maxtext@0.2.5 configs/base.yml and utils/max_utils.py: `jax_distributed_initialization_timeout` is what JAX's
coordinator waits for all processes, counted from the start of each; jax@0.11.0 _src/distributed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xsft.checks.trainer_keys import where_of
from xsft.checks.values import number
from xsft.facts import Facts
from xsft.problems import Problem, note, warning
from xsft.spec.base import Value
from xsft.spec.resolve import Run

TIMEOUT = "jax_distributed_initialization_timeout"
DEFAULT_S = 300


def check(run: Run, keys: Mapping[str, Value], facts: Facts) -> Iterator[Problem]:
    """Check the time limit of McJAX, where each host is a process; under Pathways there is one."""
    del facts
    if not run.spec.on_cluster or run.slice is None or run.mode.single_controller:
        return
    hosts, given = run.slice.hosts * run.num_slices, number(keys.get(TIMEOUT))
    if hosts > 1 and given is not None and given < DEFAULT_S:
        message = (
            f"{hosts} hosts must have pulled the image and started within {given:g} s of each other, else all of them "
            f"end with DEADLINE_EXCEEDED; JAX's default is {DEFAULT_S} s."
        )
        yield warning(
            "initialization-timeout", where_of(TIMEOUT, run), message, f"Remove it, or set at least {DEFAULT_S}."
        )
    elif run.num_slices > 1 and _waits_for_nodes(run) and (given or DEFAULT_S) <= DEFAULT_S:
        message = (
            f"Nodes of spot slices may come minutes apart, and the hosts of the first of {run.num_slices} slices wait "
            f"{given or DEFAULT_S:g} s for the others."
        )
        fix = f"Set overrides.maxtext.{TIMEOUT}: 900, or let the run restart: restarts.max."
        yield note("initialization-timeout", "tpu.num_slices", message, fix)


def _waits_for_nodes(run: Run) -> bool:
    return run.spec.tpu is not None and run.spec.tpu.capacity == "spot"
