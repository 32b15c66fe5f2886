"""The xpk command that creates a cluster for a workload, and the audit of the commands in xpk's dry run. Pure.

source: xpk@1.16.0 parser/cluster.py (options), core/nodepool.py and core/cluster.py (the gcloud commands).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import pairwise

from msgspec import Struct

from xsft.base.errors import UsageError
from xsft.catalog.tpu import Slice
from xsft.launcher.audit import ArgumentOutcome, AuditRow
from xsft.spec.modes import mode_rules
from xsft.spec.place import Place
from xsft.spec.resolve import Run

HEAD_POOL = "cpu-np"
"""xpk's node pool for Pathways heads."""
EXECUTED = ("is implemented by the following command not running since it is a dry run.", "we are executing ")
"""Words of xpk before a command: the command is on the next line, or after them on the same line."""

Command = tuple[str, ...]
"""A command line as a shell splits it."""


class ClusterLine(Struct, frozen=True, kw_only=True):
    """A line of xpk, and the dry run that shows what it does."""

    argv: Command
    dry_run: Command
    """`argv` with --dry-run. For a reservation it asks for one slice: xpk's dry run pretends that a reservation has
    room for one.
    """
    slices: int
    """Slices that the dry run shows."""
    place: Place
    shape: Slice
    capacity: str
    """The capacity's option, `--spot`."""
    pathways: bool


def cluster_line(run: Run) -> ClusterLine:
    """Return the command for the slices of a run. Raises UsageError with everything that the workload lacks."""
    place, shape, capacity = run.place, run.slice, _capacity_argument(run)
    missing = tuple(_missing_for_cluster(run, capacity))
    if missing or place is None or shape is None or capacity is None:
        raise UsageError(f"xpk cannot make a cluster for this workload: {'; '.join(missing)}.", fix=_FIX)
    verb = mode_rules(run.mode.value).xpk_verb
    where = (f"--cluster={place.cluster}", f"--project={place.project}", f"--zone={place.zone}")
    what = (*where, f"--tpu-type={shape.xpk_type}")
    slices = 1 if capacity.startswith("--reservation") else run.num_slices
    argv = ("xpk", "cluster", verb, *what)
    return ClusterLine(
        argv=(*argv, f"--num-slices={run.num_slices}", capacity),
        dry_run=(*argv, f"--num-slices={slices}", capacity, "--dry-run"),
        slices=slices,
        place=place,
        shape=shape,
        capacity=capacity,
        pathways=verb == "create-pathways",
    )


_FIX = (
    "Complete the workload or its place, or give a key after FILE: --set tpu.capacity=spot (it decides the price of "
    "the slices)."
)


def commands_in(output: str) -> tuple[Command, ...]:
    """Return the commands in a dry run of xpk, in their order, without compound shell commands."""
    return tuple(_commands(output.splitlines()))


def audit_cluster(line: ClusterLine, commands: Iterable[Command]) -> tuple[AuditRow, ...]:
    """Return one row for each value of the line that a gcloud command must hold. `where` names that command."""
    listed = tuple(commands)
    return (*_cluster_rows(line, listed), *_pool_rows(line, listed), *_head_rows(line, listed))


def _missing_for_cluster(run: Run, capacity: str | None) -> Iterator[str]:
    place = run.place
    if place is None or not (place.project and place.zone and place.cluster):
        yield "its place has no project, zone and cluster (xpk makes GKE clusters only)"
    if run.slice is None:
        yield "it names no TPU type that xpk knows"
    if capacity is None:
        yield "tpu.capacity is not set (on-demand, spot, or reservation with tpu.reservation)"


def _capacity_argument(run: Run) -> str | None:
    tpu = run.spec.tpu
    match tpu.capacity if tpu else None:
        case "on-demand":
            return "--on-demand"
        case "spot":
            return "--spot"
        case "reservation":
            return f"--reservation={tpu.reservation}" if tpu and tpu.reservation else None
        case None:
            return None


def _commands(lines: list[str]) -> Iterator[Command]:
    behind, inside = EXECUTED
    for number, line in enumerate(lines):
        if line.rstrip().endswith(behind) and number + 1 < len(lines):
            yield from _split_command(lines[number + 1])
        elif inside in line:
            yield from _split_command(line.partition(inside)[2])


def _split_command(text: str) -> Iterator[Command]:
    try:
        yield tuple(shlex.split(text))
    except ValueError:  # an open quote: the command continues on lines that the audit does not read
        return


def _cluster_rows(line: ClusterLine, commands: tuple[Command, ...]) -> Iterator[AuditRow]:
    create = next((command for command in commands if _creates(command, "clusters")), ())
    name = create[create.index("create") + 1] if create else None
    yield _argument_row("place.cluster", line.place.cluster, name, create)
    yield _argument_row("place.project", line.place.project, _option(create, "--project"), create)
    zone = line.place.zone or ""
    is_zone = zone.count("-") > 1
    yield _argument_row("place.zone", zone, _option(create, "--node-locations" if is_zone else "--region"), create)


def _pool_rows(line: ClusterLine, commands: tuple[Command, ...]) -> Iterator[AuditRow]:
    pools = [command for command in commands if _creates(command, "node-pools") and HEAD_POOL not in command]
    yield _argument_row("tpu.num_slices", line.slices, len(pools), pools[0] if pools else ())
    for pool in pools:
        yield _argument_row("tpu.type", line.shape.machine_type, _option(pool, "--machine-type"), pool)
        yield _argument_row("tpu.type", str(line.shape.hosts), _option(pool, "--num-nodes"), pool)
        if line.shape.hosts > 1:
            yield _argument_row("tpu.type", line.shape.topology, _option(pool, "--tpu-topology"), pool)
        yield _argument_row("tpu.capacity", line.capacity, _capacity_of(pool), pool)


def _head_rows(line: ClusterLine, commands: tuple[Command, ...]) -> Iterator[AuditRow]:
    heads = [command for command in commands if _creates(command, "node-pools") and HEAD_POOL in command]
    if line.pathways or heads:
        yield _argument_row("mode", int(line.pathways), len(heads), heads[0] if heads else ())


def _capacity_of(pool: Command) -> str:
    """Return the capacity of a node pool as xpk's option for it; a pool without one is on demand."""
    reservation = _option(pool, "--reservation")
    if reservation:
        return f"--reservation={reservation}"
    return "--spot" if "--spot" in pool else "--on-demand"


def _argument_row(field: str, requested: object, rendered: object, command: Command) -> AuditRow:
    where = " ".join(command[: command.index("create") + 2]) if command else ""
    outcome: ArgumentOutcome = "landed" if requested == rendered else "altered" if rendered else "dropped"
    return AuditRow(field=field, outcome=outcome, where=where, requested=requested, rendered=rendered)


def _creates(command: Command, noun: str) -> bool:
    return command[:1] == ("gcloud",) and (noun, "create") in pairwise(command)


def _option(command: Command, name: str) -> str | None:
    return next((word.partition("=")[2] for word in command if word.startswith(f"{name}=")), None)
