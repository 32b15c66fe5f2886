"""Check that the processes of a run can connect to each other in time. Pure.

source: maxtext@0.2.5 configs/base.yml and utils/max_utils.py: `jax_distributed_initialization_timeout` is what JAX's
coordinator waits for all processes, counted from the start of each; jax@0.11.0 _src/distributed.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, error, note, warning
from xsft.checks.facts import Facts
from xsft.checks.trainer_keys import is_on, number, where_of
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

TIMEOUT = "jax_distributed_initialization_timeout"
DEFAULT_S = 300
UNCONNECTED = {
    "skip_jax_distributed_system": True,
    "enable_checkpointing": False,
    "inference_benchmark_test": True,
}
"""Switches with which MaxText does not call jax.distributed.initialize. source: maxtext@0.2.5 utils/max_utils.py
[maybe_initialize_jax_distributed_system]."""
TOPOLOGY = "compile_topology"
"""Key of MaxText's ahead-of-time compiler; any value has the same effect."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check McJAX, where each host is a process; under Pathways there is one."""
    del facts
    if not run.spec.on_cluster or run.slice is None or run.mode.single_controller:
        return
    yield from _check_start(run, keys, hosts=run.slice.hosts * run.num_slices)


def _check_start(run: Run, keys: Keys, *, hosts: int) -> Iterator[Problem]:
    """Check for keys with which the hosts do not connect. source: orbax-checkpoint@0.12.8 _src/multihost/multihost.py
    [get_jax_distributed_client]."""
    unconnected = [key for key, value in UNCONNECTED.items() if key in keys and is_on(keys[key]) is value]
    unconnected += [TOPOLOGY] if keys.get(TOPOLOGY) else []
    for key in unconnected if hosts > 1 else ():
        message = (
            f"With {key}={keys[key]} MaxText does not connect the {hosts} hosts, and Orbax stops with `Distributed "
            "system is not available` before it restores or saves."
        )
        yield error("hosts-not-connected", where_of(key, run), message, "Remove it.", kind="disputable")
    timeout = number(keys.get(TIMEOUT))
    if hosts > 1 and timeout is not None and timeout < DEFAULT_S:
        message = (
            f"{hosts} hosts must have pulled the image and started within {timeout:g} s of each other, or all of them "
            f"fail with DEADLINE_EXCEEDED; JAX's default is {DEFAULT_S} s."
        )
        yield warning(
            "initialization-timeout", where_of(TIMEOUT, run), message, f"Remove it, or set at least {DEFAULT_S}."
        )
    elif run.num_slices > 1 and _waits_for_nodes(run) and (timeout or DEFAULT_S) <= DEFAULT_S:
        message = (
            f"Nodes of spot slices may come minutes apart, and the hosts of the first of {run.num_slices} slices wait "
            f"{timeout or DEFAULT_S:g} s for the others."
        )
        fix = f"Set overrides.maxtext.{TIMEOUT}: 900, or let the run restart: restarts.max."
        yield note("initialization-timeout", "tpu.num_slices", message, fix)


def _waits_for_nodes(run: Run) -> bool:
    return run.spec.tpu is not None and run.spec.tpu.capacity == "spot"
