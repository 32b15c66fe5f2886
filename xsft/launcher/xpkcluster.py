"""The xpk command that creates a cluster for a workload, and the audit of the commands in xpk's dry run. Pure.

source: xpk@1.16.0 parser/cluster.py (options), core/nodepool.py and core/cluster.py (the gcloud commands).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
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
    place = run.place
    shape = run.slice
    capacity = _capacity_argument(run)
    missing = []
    if place is None or not (place.project and place.zone and place.cluster):
        missing.append("its place has no project, zone and cluster (xpk makes GKE clusters only)")
    if shape is None:
        missing.append("it names no TPU type that xpk knows")
    if capacity is None:
        missing.append("tpu.capacity is not set (on-demand, spot, or reservation with tpu.reservation)")
    if missing or place is None or shape is None or capacity is None:
        raise UsageError(f"xpk cannot make a cluster for this workload: {'; '.join(missing)}.", fix=_FIX)
    verb = mode_rules(run.mode.value).xpk_verb
    slices = 1 if capacity.startswith("--reservation") else run.num_slices
    where = (f"--cluster={place.cluster}", f"--project={place.project}", f"--zone={place.zone}")
    argv = ("xpk", "cluster", verb, *where, f"--tpu-type={shape.xpk_type}")
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


def commands_in(output: str) -> Iterator[Command]:
    """Yield the commands in a dry run of xpk, in their order, without compound shell commands."""
    lines = output.splitlines()
    for number, line in enumerate(lines):
        text = line.partition(EXECUTED[1])[2]
        if line.rstrip().endswith(EXECUTED[0]):
            text = "".join(lines[number + 1 : number + 2])
        with suppress(ValueError):  # an open quote: the command continues on lines that the audit does not read
            if command := tuple(shlex.split(text)):
                yield command


def audit_cluster(line: ClusterLine, commands: Iterable[Command]) -> tuple[AuditRow, ...]:
    """Return one row for each value of the line that a gcloud command must hold. `where` names that command."""
    listed = tuple(commands)
    pools = [command for command in listed if _creates(command, "node-pools")]
    heads = [command for command in pools if HEAD_POOL in command]
    rows = [*_cluster_rows(line, listed), *_pool_rows(line, [pool for pool in pools if HEAD_POOL not in pool])]
    if line.pathways or heads:
        rows.append(_argument_row("mode", int(line.pathways), len(heads), heads[0] if heads else ()))
    return tuple(rows)


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


def _cluster_rows(line: ClusterLine, commands: tuple[Command, ...]) -> Iterator[AuditRow]:
    create = next((command for command in commands if _creates(command, "clusters")), ())
    name = create[create.index("create") + 1] if create else None
    yield _argument_row("place.cluster", line.place.cluster, name, create)
    yield _argument_row("place.project", line.place.project, _option(create, "--project"), create)
    zone = line.place.zone or ""
    is_zone = zone.count("-") > 1
    yield _argument_row("place.zone", zone, _option(create, "--node-locations" if is_zone else "--region"), create)


def _pool_rows(line: ClusterLine, pools: list[Command]) -> Iterator[AuditRow]:
    yield _argument_row("tpu.num_slices", line.slices, len(pools), pools[0] if pools else ())
    for pool in pools:
        yield _argument_row("tpu.type", line.shape.machine_type, _option(pool, "--machine-type"), pool)
        yield _argument_row("tpu.type", str(line.shape.hosts), _option(pool, "--num-nodes"), pool)
        if line.shape.hosts > 1:
            yield _argument_row("tpu.type", line.shape.topology, _option(pool, "--tpu-topology"), pool)
        yield _argument_row("tpu.capacity", line.capacity, _capacity_of(pool), pool)


def _capacity_of(pool: Command) -> str:
    """Return the capacity of a node pool as xpk's option for it; a pool without one is on demand."""
    reservation = _option(pool, "--reservation")
    if reservation:
        return f"--reservation={reservation}"
    return "--spot" if "--spot" in pool else "--on-demand"


def _argument_row(field: str, requested: object, rendered: object, command: Command) -> AuditRow:
    where = " ".join(command[: command.index("create") + 2]) if command else ""
    outcome: ArgumentOutcome = "altered" if rendered else "dropped"
    if requested == rendered:
        outcome = "landed"
    return AuditRow(field=field, outcome=outcome, where=where, requested=requested, rendered=rendered)


def _creates(command: Command, noun: str) -> bool:
    return command[:1] == ("gcloud",) and (noun, "create") in pairwise(command)


def _option(command: Command, name: str) -> str | None:
    return next((word.partition("=")[2] for word in command if word.startswith(f"{name}=")), None)
