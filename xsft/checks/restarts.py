"""Check restarts: the exit codes that restart a container, and the time to save before one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from xsft.base.problems import Problem, note, warning
from xsft.checks.facts import Facts
from xsft.checks.schedule import takes_spot_nodes
from xsft.checks.step_time import HOUR_S, run_time
from xsft.spec.base import Keys
from xsft.spec.resolve import Run

CONFIG_ERROR = 2
"""Exit code of MaxText >= 0.2.3 for a configuration that it refuses."""

LOST_SLICE = 1
"""Exit code of the trainer under Pathways when a slice is lost: the proxy reports it, Python raises, nothing catches
it.

source: pathwaysutils@0.1.13 elastic/elastic.py (JaxRuntimeError, DATA_LOSS), which MaxText's SFT trainer does not use.
In McJAX the peers abort with 134 (run with jax@0.11.0: one of two processes killed), which restarts.
"""

WRAPPER_S = 10
"""Seconds that xpk's wrapper may take: every 5 s it forwards SIGTERM, and checks for the exit; source: xpk@1.16.0
core/docker_container.py."""

SPOT_NOTICE_S = 30
"""Seconds from the notice to the end of a spot node; its kubelet keeps half of it for system pods. source:
cloud.google.com/kubernetes-engine/docs/concepts/spot-vms, "Termination and graceful shutdown"."""

LONG_RUN_S = 24 * HOUR_S
"""Seconds of a run on which a node is likely to be lost: GKE's own maintenance of a node pool comes more often than
once in a month, and a slice of 64 hosts has 64 nodes."""
MUCH_WORK_S = HOUR_S / 2
"""Seconds of lost work that are worth a line."""


def check(run: Run, keys: Keys, facts: Facts) -> Iterator[Problem]:
    """Check what restarts mean for a run on a cluster."""
    del keys, facts
    if run.spec.on_cluster:
        yield from _check_exit_codes_and_spot(run)
        yield from _check_lost_slice(run)
        yield from _check_grace_and_ttl(run)
        yield from _check_lost_work(run)


def _check_exit_codes_and_spot(run: Run) -> Iterator[Problem]:
    restarts = run.spec.restarts
    if CONFIG_ERROR in restarts.on_exit_codes:
        message = (
            "MaxText exits with 2 if it refuses the configuration; every restart would take the slices and fail again."
        )
        yield warning("restarts-config-errors", "restarts.on_exit_codes", message, "Remove 2.")
    if restarts.on_exit_codes and restarts.max == 0:
        message = "on_exit_codes has no effect while restarts.max is 0."
        yield warning("restarts-codes-unused", "restarts.on_exit_codes", message, "Set restarts.max, e.g. 3.")
    # A lost node alone fails no Job (its pod is made again), but the processes that lose their peer exit non-zero.
    if takes_spot_nodes(run) and run.spec.restarts.max == 0:
        message = (
            "Spot slices without restarts: when a node is preempted, its pod is recreated, but the trainer on the "
            "other hosts exits with an error, which ends the run."
        )
        fix = "Set restarts.max, e.g. 10: the run resumes from its last checkpoint."
        yield warning("restarts-spot", "restarts.max", message, fix)


def _check_lost_slice(run: Run) -> Iterator[Problem]:
    restarts = run.spec.restarts
    if not run.mode.single_controller or restarts.max == 0 or LOST_SLICE in restarts.on_exit_codes:
        return
    message = (
        "Under Pathways a lost slice reaches the trainer as a Python exception: exit code 1, which does not "
        "restart the run."
    )
    fix = "Set restarts.on_exit_codes: [1]; then an error in the workload is retried, too."
    if takes_spot_nodes(run):
        yield warning("restarts-lost-slice", "restarts.on_exit_codes", message, fix)
    else:
        yield note("restarts-lost-slice", "restarts.on_exit_codes", message, fix)


def _check_grace_and_ttl(run: Run) -> Iterator[Problem]:
    grace = run.spec.restarts.grace_period_s
    if grace is not None and grace <= WRAPPER_S:
        message = f"A grace period of {grace} s leaves no time to save: xpk's wrapper uses up to {WRAPPER_S} s of it."
        fix = f"Set the seconds of a save plus {WRAPPER_S}, or keep the default of 30."
        yield warning("grace-period", "restarts.grace_period_s", message, fix)
    if grace is not None and grace > SPOT_NOTICE_S and takes_spot_nodes(run):
        message = (
            f"A spot node ends {SPOT_NOTICE_S} s after its notice, whatever the grace period of {grace} s; its pods "
            "get about half of that."
        )
        fix = "Save often (train.checkpoint_period): a longer grace period helps only at an eviction by Kueue."
        yield note("grace-on-spot", "restarts.grace_period_s", message, fix)
    if run.spec.ttl_seconds_after_finished == 0:
        message = "The JobSet is deleted as soon as it ends, and its result is lost."
        fix = "Set at least a few minutes, e.g. 3600."
        yield warning("ttl-zero", "ttl_seconds_after_finished", message, fix)


def _check_lost_work(run: Run) -> Iterator[Problem]:
    """Report what an interruption costs, if it is much. The times are lower bounds, by arithmetic."""
    time = run_time(run)
    if time is None:
        return
    if run.spec.restarts.max == 0 and time.seconds >= LONG_RUN_S:
        message = (
            f"The steps take at least {time.seconds / LONG_RUN_S:.1f} days, and restarts.max is 0: the first lost node "
            f"ends the run for all {time.chips} chips."
        )
        yield warning("restarts-none", "restarts.max", message, "Set restarts.max, e.g. 3.")
    lost_s = run.checkpoint_period * time.step_s / 2
    if lost_s >= MUCH_WORK_S:
        chip_hours = lost_s * time.chips / HOUR_S
        cost = f", {chip_hours * time.price:,.0f} by the place's price" if time.price else ""
        message = (
            f"An interruption loses half the steps between two checkpoints on average: at least "
            f"{lost_s / HOUR_S:.1f} h, {chip_hours:,.0f} chip-hours{cost}, and the restart besides."
        )
        yield note("interruption-cost", "train.checkpoint_period", message, "Set a smaller train.checkpoint_period.")
